"""The command line: one module per command, listed in an explicit table."""

from coremlscope.cli.main import COMMANDS, main

__all__ = ["COMMANDS", "main"]
