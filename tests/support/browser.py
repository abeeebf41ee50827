"""The type of the fixture that drives a headless browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Drive"]

#: Runs a script with a page and arguments; returns its JSON output.
Drive = Callable[..., Any]
