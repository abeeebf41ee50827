"""`coremlscope profile`: how long a model takes on this machine, and where the time goes."""

from __future__ import annotations

from coremlscope.cli.command import Command, add_model

COMMAND = Command("profile", "Time a model.", "", add_model, lambda arguments: 1)
