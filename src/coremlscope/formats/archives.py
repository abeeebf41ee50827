"""Safe unpacking: limits on the unpacked size, and errors of damaged archives."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from coremlscope.base.errors import CorruptModelError
from coremlscope.base.units import format_bytes, shown

try:
    from lzma import LZMAError
except ImportError:  # a Python in a browser has no such method, and `zipfile` says so

    class LZMAError(Exception):  # type: ignore[no-redef]
        """Is never raised."""


#: Content above this size is rejected if its compression ratio is higher than that of weights.
_BOMB_BYTES, _BOMB_RATIO = 256 * 2**20, 100
_CHUNK = 2**20
#: The methods of compression for which `zipfile` bounds what it unpacks at once. For others it unpacks all
#: that it reads, which may become sixteen thousand times as much: so it reads only few bytes at once.
_BOUNDED, _FEW_BYTES = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), 512
#: The largest list of members. An entry takes 46 bytes and a name, and twenty times that in memory.
_MOST_LISTED_BYTES = 16 * 2**20
#: The end of a zip archive: its signature, the field with the size of the list of members, and its length.
_END, _LISTED, _END_BYTES = b"PK\x05\x06", struct.Struct("<12xI"), 22
#: The same for large archives, after 56 and 20 other bytes, and the size that refers to it.
_LARGE_END, _LARGE_LISTED, _IS_LARGE = b"PK\x06\x06", struct.Struct("<40xQ"), 2**32 - 1
#: The longest path that macOS opens.
_LONGEST_PATH = 1024
_LONGEST_COMMENT, _LARGE_END_BYTES = 2**16, 76


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
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opens a zip archive, and checks the total size of its members.

    Raises:
        CorruptModelError: The archive is damaged, encrypted or malicious, now or while it is used.
    """
    try:
        with path.open("rb") as file:
            _check_list(path, file)
            with zipfile.ZipFile(file) as archive:
                _check_names(path, archive)
                check_budget(path, sum(info.file_size for info in archive.infolist()))
                yield archive
    except (
        zipfile.BadZipFile,
        zlib.error,
        LZMAError,
        EOFError,
        IndexError,
        OverflowError,
        MemoryError,  # of a decoder with an excessive dictionary
        RuntimeError,
        ValueError,
        struct.error,
    ) as error:
        raise CorruptModelError(
            f"the zip archive {path} cannot be read: {shown(str(error))}",
            "unpack it with another program, or download it again",
        ) from None


def _check_list(path: Path, file: IO[bytes]) -> None:
    """Checks the size of the list of members, which `zipfile` reads into memory at once."""
    size = path.stat().st_size
    file.seek(max(0, size - _LARGE_END_BYTES - _END_BYTES - _LONGEST_COMMENT))
    tail = file.read()
    file.seek(0)
    place = tail.rfind(_END)
    if place < 0 or len(tail) < place + _END_BYTES:
        return  # `zipfile` gives the error.
    (listed,) = _LISTED.unpack_from(tail, place)
    large = tail.rfind(_LARGE_END, 0, place)
    if listed == _IS_LARGE and large >= 0:
        (listed,) = _LARGE_LISTED.unpack_from(tail, large)
    if listed > _MOST_LISTED_BYTES:
        raise CorruptModelError(
            f"the zip archive {path} has a list of files of {format_bytes(listed)}",
            "unpack it with another program, and use one of the models in it",
        )


def _check_names(path: Path, archive: zipfile.ZipFile) -> None:
    """Checks the lengths of names: a path has as many parents as parts, and each is as long as itself."""
    longest = max((len(info.filename) for info in archive.infolist()), default=0)
    if longest > _LONGEST_PATH:
        raise CorruptModelError(
            f"the zip archive {path} has a file with a name of {longest} characters",
            "unpack it with another program, and use one of the models in it",
        )


def _parts(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yields the content of a member in parts. Not more than its declared size is unpacked."""
    with archive.open(info) as member:
        assert isinstance(member, zipfile.ZipExtFile)
        size = _CHUNK
        if info.compress_type not in _BOUNDED:
            size = member.MIN_READ_SIZE = _FEW_BYTES
        while part := member.read(size):
            yield part


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most_bytes: int) -> bytes:
    """Unpacks a member of an archive of `open_zip` into memory.

    Args:
        archive: The archive.
        info: The member.
        most_bytes: Its maximum size.

    Raises:
        CorruptModelError: It is too large.
    """
    if info.file_size > most_bytes:
        raise CorruptModelError(
            f"{shown(info.filename)} in {archive.filename} is larger than {format_bytes(most_bytes)}",
            "unpack the archive yourself if you trust it",
        )
    return b"".join(_parts(archive, info))


def copy_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: IO[bytes]) -> None:
    """Unpacks a member of an archive of `open_zip` into a file."""
    for part in _parts(archive, info):
        target.write(part)


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
