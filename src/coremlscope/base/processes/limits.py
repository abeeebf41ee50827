"""Limits, peak memory and end of a child process, from inside it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from coremlscope.base.processes.mac_memory import largest_footprint_bytes

#: Address space allowed beyond the memory limit, which counts used memory: stacks and reserves.
_RESERVED_BYTES = 1 << 30


def hold_to_limits(time_s: float | None, memory_bytes: int | None) -> None:
    """Holds this process to limits where its parent cannot, and offers it to the system first.

    Args:
        time_s: Seconds on every core; None for no limit.
        memory_bytes: Bytes of memory; None for no limit.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if time_s is not None:
        _lower(resource.RLIMIT_CPU, int(time_s * (os.cpu_count() or 1)) + 1)
    if memory_bytes is not None:
        _lower(resource.RLIMIT_DATA, memory_bytes + _RESERVED_BYTES)


def _lower(kind: int, wanted: int) -> None:
    import resource

    soft, hard = resource.getrlimit(kind)
    known = [limit for limit in (wanted, soft, hard) if limit != resource.RLIM_INFINITY]
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (min(known), hard))


def peak_memory_bytes() -> int | None:
    """Returns the peak memory of this process; None where the system does not report it.

    On a Mac it is the largest footprint, else the largest resident memory.
    """
    if largest := largest_footprint_bytes(os.getpid()):
        return largest
    with suppress(OSError, ValueError, IndexError, StopIteration):
        # Linux also counts the process that started this one in `ru_maxrss`, until this program replaced it.
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def end_with_parent(
    before: Callable[[], object] = lambda: None, told: Callable[[], object] = lambda: None
) -> None:
    """Ends this process when its parent closes the standard input, or ends itself.

    Args:
        before: Called just before the end.
        told: Called when the parent sends something.
    """

    def follow() -> None:
        with suppress(OSError):
            while os.read(sys.stdin.fileno(), 1024):
                told()
        with suppress(OSError):
            before()
        os._exit(0)

    threading.Thread(target=follow, name="parent", daemon=True).start()
