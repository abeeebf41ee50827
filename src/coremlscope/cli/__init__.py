"""The command line: one verb a file, an explicit table of them."""

from coremlscope.cli.main import COMMANDS, main

__all__ = ["COMMANDS", "main"]
