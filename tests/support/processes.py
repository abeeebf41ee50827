"""Processes that a test starts, and those that they start."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coremlscope.base.processes.child import ChildLimits, _resident_bytes

__all__ = ["children_of", "is_running", "skip_unless_limited", "wait_for"]


def children_of(pid: int) -> set[int]:
    """Returns the processes that a process started, theirs included. Only Linux lists them."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            direct = {int(number) for number in task.read_text(encoding="ascii").split()}
        except OSError:  # the thread ended
            continue
        found |= direct.union(*(children_of(child) for child in direct))
    return found


def is_running(pid: int) -> bool:
    """True if a process exists that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    """Waits until a condition is true; returns whether it became so."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def skip_unless_limited(limits: ChildLimits) -> None:
    """Skips a test of a limit of memory where the system does not say what a process takes."""
    if limits.memory_bytes is not None and not _resident_bytes(os.getpid()):
        pytest.skip("the memory of processes is not known here")
