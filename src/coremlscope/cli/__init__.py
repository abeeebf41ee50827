"""The command line: one module per command, listed in an explicit table."""

from coremlscope.cli.main import VERBS, all_commands, find_command, main

__all__ = ["VERBS", "all_commands", "find_command", "main"]
