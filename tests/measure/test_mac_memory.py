"""The memory footprint of a process on a Mac."""

from __future__ import annotations

import ctypes
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from coremlscope.base.processes import mac_memory


def _library(status: int) -> Any:
    """A library whose `proc_pid_rusage` fills in the number of each field."""

    def ask(pid: int, flavor: int, buffer: Any) -> int:
        assert (pid, flavor) == (7, 4)
        usage = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_uint64))
        for place in range(2, ctypes.sizeof(mac_memory._Usage) // 8):
            usage[place] = place - 2
        return status

    return SimpleNamespace(proc_pid_rusage=ask)


@pytest.mark.parametrize(("status", "now", "largest"), [(0, 7, 28), (-1, 0, 0)])
def test_places_of_the_fields(monkeypatch: pytest.MonkeyPatch, status: int, now: int, largest: int) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: _library(status))
    assert mac_memory.footprint_bytes(7) == now
    assert mac_memory.largest_footprint_bytes(7) == largest
    # `struct rusage_info_v4`: a UUID and 35 numbers.
    assert ctypes.sizeof(mac_memory._Usage) == 296


def test_this_process() -> None:
    footprint = mac_memory.footprint_bytes(os.getpid())
    assert footprint > 10**6 if sys.platform == "darwin" else footprint == 0
