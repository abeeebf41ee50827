"""The memory footprint of a process on a Mac: what Xcode shows, and what the system ends a process for.

macOS ignores RLIMIT_AS, so that a parent looks at its children. `proc_pid_rusage` does that without a process
of its own, several times a second next to what is timed.
"""

from __future__ import annotations

import ctypes
from typing import Any

_UUID_BYTES, _FIELDS = 16, 35
#: The flavor whose fields these are, RUSAGE_INFO_V4 (macOS 10.13), and places in `struct rusage_info_v4`.
_FLAVOR, _NOW, _LARGEST = 4, 7, 28


class _Usage(ctypes.Structure):
    _fields_ = (("uuid", ctypes.c_uint8 * _UUID_BYTES), ("fields", ctypes.c_uint64 * _FIELDS))


def footprint_bytes(pid: int) -> int:
    """Returns the memory footprint of a process; 0 where the system does not say."""
    return _field(pid, _NOW)


def largest_footprint_bytes(pid: int) -> int:
    """Returns the largest memory footprint that a process had; 0 where the system does not say."""
    return _field(pid, _LARGEST)


def _field(pid: int, place: int) -> int:
    usage = _Usage()
    try:
        ask: Any = ctypes.CDLL(None).proc_pid_rusage
    except (AttributeError, OSError, TypeError):  # another system
        return 0
    ask.argtypes, ask.restype = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p), ctypes.c_int
    return int(usage.fields[place]) if ask(pid, _FLAVOR, ctypes.byref(usage)) == 0 else 0
