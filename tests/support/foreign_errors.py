"""One exception of each family that the system, Python and libraries raise."""

from __future__ import annotations

import errno
import os
import struct
import zipfile
from collections.abc import Callable, Mapping

__all__ = ["FOREIGN", "SYSTEM", "raising"]

#: Errors of the system, whose sentence names the file and what the system says.
SYSTEM: tuple[OSError, ...] = tuple(
    OSError(code, os.strerror(code), "place/file.bin")
    for code in (errno.EACCES, errno.EIO, errno.ENAMETOOLONG, errno.ELOOP, errno.ESTALE, errno.EMFILE)
)
#: All others, which nobody expects: faults of coremlscope.
FOREIGN: tuple[Exception, ...] = (
    ValueError("min() arg is an empty sequence"),
    KeyError("x"),
    IndexError("list index out of range"),
    TypeError("unhashable type: 'list'"),
    AttributeError("'NoneType' object has no attribute 'shape'"),
    AssertionError(),
    RecursionError("maximum recursion depth exceeded"),
    ZeroDivisionError("division by zero"),
    OverflowError("int too large to convert to float"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"),
    NotImplementedError("this"),
    StopIteration(),
    RuntimeError("generator raised StopIteration"),
    struct.error("unpack requires a buffer of 4 bytes"),
    zipfile.BadZipFile("File is not a zip file"),
    SyntaxError("invalid syntax"),
    ImportError("no module named x"),
)


def raising(error: Exception) -> Callable[..., object]:
    """Returns a function that raises an exception, whatever it is given."""

    def fail(*arguments: object, **options: Mapping[str, object]) -> object:
        raise error

    return fail
