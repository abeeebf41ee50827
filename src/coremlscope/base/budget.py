"""How much memory one model may take: a bound from the size of its files and the memory of this machine."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from pathlib import Path

import msgspec

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.units import format_bytes

#: Bytes that a model of any size may have.
_FREE_BYTES = 256 << 20
#: Bytes that may be computed for each byte of the model's files. One bit of a palette becomes 4 bytes of
#: float32, which is 32 times its size, and is copied by each operation that rearranges it.
_RATIO = 256
#: The part of the machine's memory that one array of constants may take: it is computed from copies.
_ARRAY_PART = 4
#: The memory that an operation takes until it is planned and estimated.
_OPERATION_BYTES = 8 << 10
#: Assumed if the machine does not report its memory.
_UNKNOWN_BYTES = 8 << 30
#: The limits of memory of a container, in version 2 and version 1 of Linux's control groups.
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The memory and the work that may be spent on a model's constants and values.

    Attributes:
        memory_bytes: The memory of this machine.
        model_bytes: The size of the model's files.
    """

    memory_bytes: int
    model_bytes: int = 0

    @classmethod
    def of_model(cls, model_bytes: int = 0) -> Budget:
        """Returns the budget of a model of this size on this machine."""
        return cls(memory_bytes=machine_memory_bytes(), model_bytes=model_bytes)

    @property
    def computed_bytes(self) -> int:
        """The bytes that may be computed from constants in total, intermediate ones included."""
        return _FREE_BYTES + _RATIO * self.model_bytes

    @property
    def array_bytes(self) -> int:
        """The size of the largest array of constants."""
        return min(self.computed_bytes, self.memory_bytes // _ARRAY_PART)

    def check_operations(self, count: int) -> None:
        """Checks that the operations of a graph fit in memory.

        Raises:
            UnsupportedModelError: They take more than the memory of this machine.
        """
        if count * _OPERATION_BYTES > self.memory_bytes:
            raise UnsupportedModelError(
                f"{count:,} operations take {format_bytes(count * _OPERATION_BYTES)}, but this machine has "
                f"{format_bytes(self.memory_bytes)} of memory",
                "use a machine with more memory",
            )

    def check_value(self, nbytes: int, what: str, *, copies: int = 1) -> None:
        """Checks that a value of a running model fits in memory.

        Args:
            nbytes: Its size.
            what: Its name in the error.
            copies: How many copies there are at the same time.

        Raises:
            UnsupportedModelError: It is larger than the memory of this machine.
        """
        if nbytes * copies > self.memory_bytes:
            times = f"{copies} times " if copies > 1 else ""
            raise UnsupportedModelError(
                f"{what} takes {times}{format_bytes(nbytes)}, but this machine has "
                f"{format_bytes(self.memory_bytes)} of memory",
                "set a smaller shape with --shape, if the model allows one; `coremlscope inspect` and "
                "`coremlscope plan` work without running the model",
            )

    def check_weights(self, nbytes: int) -> None:
        """Checks the size of a model's weights as the engine needs them.

        Raises:
            UnsupportedModelError: They are much larger than the model's files.
        """
        if nbytes > self.computed_bytes:
            raise UnsupportedModelError(
                f"the unpacked weights take {format_bytes(nbytes)}, more than {_RATIO} times the size of the "
                f"model's files ({format_bytes(self.model_bytes)})",
                "do not run this model unless you trust its author; `coremlscope inspect` still works on it",
            )


def return_memory() -> None:
    """Returns freed memory to the system. glibc would keep it: ten times the size of a specification."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl does not have it
        if trim is not None:
            trim(0)


@functools.cache
def machine_memory_bytes() -> int:
    """Returns the memory that this process may use: that of the machine, its container, and its limits."""
    known = [_physical_bytes(), *map(_cgroup_bytes, _CGROUP_LIMITS), *_limits()]
    return min((size for size in known if size is not None), default=_UNKNOWN_BYTES)


def _physical_bytes() -> int | None:
    if sys.platform == "win32":
        return _physical_bytes_of_windows()
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _physical_bytes_of_windows() -> int | None:
    kilobytes = ctypes.c_ulonglong()
    kernel = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    return (
        kilobytes.value * 1024 if kernel.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes)) else None
    )


def _cgroup_bytes(limit: Path) -> int | None:
    try:
        text = limit.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() else None


def _limits() -> list[int]:
    """Returns the limits of the process's address space and data, as far as they are set."""
    if sys.platform in ("win32", "emscripten"):
        return []
    import resource

    limits = []
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        with contextlib.suppress(OSError, ValueError):
            limits.append(resource.getrlimit(kind)[0])
    return [limit for limit in limits if limit != resource.RLIM_INFINITY]
