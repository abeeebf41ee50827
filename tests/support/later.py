"""A clock of limits that goes on by minutes once predictions have begun."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

__all__ = ["minutes_later"]


def minutes_later(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], None]:
    """Returns a callback for progress; limits of at most 800 s are reached at the second prediction."""
    added = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + added[0])
    monkeypatch.setattr("coremlscope.base.processes.child.time", clock)

    def progress(phase: str, done: int, total: int) -> None:
        if (phase, done) == ("predict", 2):
            added[0] = 800.0

    return progress
