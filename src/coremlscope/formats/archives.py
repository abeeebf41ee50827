"""Safe unpacking: limits on the unpacked size, and errors of damaged archives."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from coremlscope.errors import CorruptModelError
from coremlscope.units import format_bytes, shown

__all__ = ["check_budget", "is_link", "read_gzip", "zip_errors"]

#: Content above this size is rejected if its compression ratio is higher than that of weights.
_BOMB_BYTES, _BOMB_RATIO = 256 * 2**20, 100
_CHUNK = 2**20


def check_budget(path: Path, unpacked_bytes: int, folder: Path | None = None) -> None:
    """Checks the unpacked size of files in an archive against its own size and the free space.

    Args:
        path: The archive.
        unpacked_bytes: The total size of the files that will be unpacked.
        folder: The folder to which they are unpacked, if any.

    Raises:
        CorruptModelError: The files are too large.
    """
    if unpacked_bytes > max(_BOMB_BYTES, _BOMB_RATIO * path.stat().st_size):
        raise CorruptModelError(
            f"{path} would have an extracted size of {unpacked_bytes} bytes, more than {_BOMB_RATIO} times "
            "its own size",
            "this looks like a zip bomb; unpack the archive yourself if you trust it",
        )
    if folder is not None and unpacked_bytes > shutil.disk_usage(folder).free:
        raise CorruptModelError(
            f"{path} would take {format_bytes(unpacked_bytes)}, more than is free on the disk of {folder}",
            "free disk space, or set the environment variable TMPDIR to a folder on another disk",
        )


def is_link(info: zipfile.ZipInfo) -> bool:
    """True for a symbolic link in a zip archive."""
    return stat.S_ISLNK(info.external_attr >> 16)


@contextlib.contextmanager
def zip_errors(path: Path) -> Iterator[None]:
    """Wraps the exceptions of `zipfile` for damaged, encrypted and unsupported archives."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        IndexError,
        OverflowError,
        RuntimeError,
        ValueError,
        struct.error,
    ) as error:
        raise CorruptModelError(
            f"the zip archive {path} cannot be read: {shown(str(error))}",
            "unpack it with another program, or download it again",
        ) from None


def read_gzip(path: Path, most_bytes: int) -> bytes:
    """Unpacks a gzip file into memory.

    Args:
        path: The file.
        most_bytes: The maximum size of the content.

    Raises:
        CorruptModelError: The file is damaged or truncated, or its content is too large.
    """
    parts: list[bytes] = []
    total = 0
    try:
        with gzip.open(path) as file:
            while chunk := file.read(_CHUNK):
                parts.append(chunk)
                total += len(chunk)
                check_budget(path, total)
                if total > most_bytes:
                    raise CorruptModelError(
                        f"the content of {path} is larger than {format_bytes(most_bytes)}",
                        "unpack the file yourself if you trust it",
                    )
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise CorruptModelError(
            f"the gzip archive {path} cannot be read: {shown(str(error))}",
            "unpack it with another program, or download it again",
        ) from None
    return b"".join(parts)
