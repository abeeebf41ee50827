"""Reading and writing of weight files: blob storage version 2. Each file is read through a memory mapping,
or piece by piece where a mapping would be a copy.

A file starts with a 64-byte header (`u32` count of blobs, `u32` version 2, zeros). Each blob has 64 bytes of
metadata (`u32` 0xDEADBEEF, `u32` type, `u64` bytes, `u64` absolute offset of the data, `u64` padding in bits,
zeros), followed by its data; both are aligned to 64 bytes. A program refers to a blob by the offset of its
metadata. All numbers are little-endian.
(Source: coremltools' `mlmodel/src/MILBlob/Blob/StorageFormat.hpp`.)
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from coremlscope.base.errors import CorruptModelError, MissingWeightsError
from coremlscope.base.units import shown
from coremlscope.base.writing import open_draft
from coremlscope.formats.packing import pack, unpack
from coremlscope.model import ir

ALIGNMENT = 64
_HEADER = struct.Struct("<II56x")
_METADATA = struct.Struct("<IIQQQ32x")
_SENTINEL = 0xDEADBEEF
_VERSION = 2

#: Element types by their number in a weight file.
BLOB_TYPES = {
    1: ir.DType.FP16,
    2: ir.DType.FP32,
    3: ir.DType.UINT8,
    4: ir.DType.INT8,
    5: ir.DType.BF16,
    6: ir.DType.INT16,
    7: ir.DType.UINT16,
    8: ir.DType.INT4,
    9: ir.DType.UINT1,
    10: ir.DType.UINT2,
    11: ir.DType.UINT4,
    12: ir.DType.UINT3,
    13: ir.DType.UINT6,
    14: ir.DType.INT32,
    15: ir.DType.UINT32,
    16: ir.DType.FP8_E4M3,
    17: ir.DType.FP8_E5M2,
}
_BLOB_NUMBERS = {dtype: number for number, dtype in BLOB_TYPES.items()}

#: The first bytes of a Git LFS pointer, and an upper limit of its size.
_POINTER = b"version https://git-lfs."
_LARGEST_POINTER = 1024

#: Bytes of a mapped file that are read before its pages are given back, which count as memory of the process.
_MOST_RESIDENT = 256 << 20


class _Pieces:
    """A file whose pieces are read when they are asked for, as if it was mapped."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._size = file, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: slice) -> memoryview:
        start, stop, _ = place.indices(self._size)
        self._file.seek(start)
        return memoryview(self._file.read(stop - start))


class WeightStorage:
    """A weight file, mapped on first use and shared by all of its blobs.

    Args:
        name: The file's name in the program: `@model_path/weights/weight.bin`.
        path: The path of the file, which may be missing; None if there is no separate file.
        opener: If there is no path, returns the open file (an extracted archive member). The mapping keeps
            its content alive.
        size: Size of the file that `opener` returns, in bytes.
    """

    def __init__(
        self,
        name: str,
        path: Path | None = None,
        opener: Callable[[], IO[bytes]] | None = None,
        size: int | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self._opener = opener
        self._size = size
        self._view: memoryview | _Pieces | None = None
        self._mapping: mmap.mmap | None = None
        self._unreleased = 0

    @property
    def size(self) -> int | None:
        """Size of the file in bytes; None if it is missing or a Git LFS pointer."""
        if self.path is None:
            return self._size
        if not self.path.is_file():
            return None
        size = self.path.stat().st_size
        if size < _LARGEST_POINTER:
            with self.path.open("rb") as file:
                return None if file.read(len(_POINTER)) == _POINTER else size
        return size

    @property
    def is_available(self) -> bool:
        """False if the file is missing or a Git LFS pointer."""
        return (
            self._view is not None
            or self._opener is not None
            or (self.path is not None and self.size is not None)
        )

    def read(self, offset: int, size: int, what: str) -> memoryview:
        """Returns `size` bytes at `offset`, without copying where the file is mapped.

        Raises:
            MissingWeightsError: The file is missing or too short.
        """
        view = self._map()
        if offset + size > len(view):
            file = f"{shown(self.name)} ({len(view)} bytes)"
            raise MissingWeightsError(
                f"{what} at byte {offset} ({size} bytes) is outside {file}",
                self._hint(view)
                or "the weight file is truncated or belongs to another model; download it again",
            )
        self._unreleased += size
        if self._unreleased > _MOST_RESIDENT and self._mapping is not None and sys.platform != "win32":
            self._mapping.madvise(mmap.MADV_DONTNEED)  # what is read again comes from the system's cache
            self._unreleased = size
        return view[offset : offset + size]

    def _map(self) -> memoryview | _Pieces:
        if self._view is None:
            try:
                if sys.platform == "emscripten":  # whose mapping copies the whole file
                    file = self._open()
                    self._view = _Pieces(file, file.seek(0, os.SEEK_END))
                    return self._view
                with self._open() as file:
                    size = os.fstat(file.fileno()).st_size
                    self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
            except OSError as error:
                raise MissingWeightsError(
                    f"the weight file {shown(self.name)} cannot be read: {error.strerror or error}",
                    "put the file in the expected place, or download the whole package again",
                ) from None
            self._view = memoryview(self._mapping or b"")
        return self._view

    def _open(self) -> IO[bytes]:
        if self._opener is not None:
            return self._opener()
        if self.path is None or not self.path.is_file():
            where = "" if self.path is None else f" (expected at {shown(str(self.path))})"
            raise MissingWeightsError(
                f"the weight file {shown(self.name)} is missing{where}",
                "put the file in the expected place; the model's structure can be read without it",
            )
        return self.path.open("rb")

    @staticmethod
    def _hint(view: memoryview | _Pieces) -> str:
        if bytes(view[: len(_POINTER)]) == _POINTER:
            return "the weight file is a Git LFS pointer; run `git lfs pull` to fetch its content"
        return ""


class BlobData(msgspec.Struct, frozen=True, eq=False):
    """A constant's elements in a weight file, which is opened on first access.

    Attributes:
        storage: The file.
        offset: Offset of the blob's metadata in bytes.
        type: The type declared in the program.
    """

    storage: WeightStorage
    offset: int
    type: ir.TensorType

    @property
    def stored_bytes(self) -> int:
        """Size of the packed elements in bytes."""
        return self.type.nbytes or 0

    @property
    def least_end(self) -> int:
        """The file's smallest size with which it can hold the blob, in bytes. Nothing is read."""
        return self.offset + _METADATA.size + self.stored_bytes

    @property
    def is_available(self) -> bool:
        """False if the weight file is missing."""
        return self.storage.is_available

    def location(self) -> tuple[int, int]:
        """Checks the blob, and returns the absolute offset and size of the packed elements in bytes.

        Raises:
            MissingWeightsError: The file is missing or too short.
            CorruptModelError: The metadata is damaged or contradicts the declared type.
        """
        what = f"the blob of a {ir.describe_type(self.type)}"
        self._check_version()
        metadata = self.storage.read(self.offset, _METADATA.size, what)
        # The last field is the padding, which older writers left undefined.
        sentinel, number, size, start, _ = _METADATA.unpack(metadata)
        place = f"at byte {self.offset} of {shown(self.storage.name)}"
        if sentinel != _SENTINEL:
            raise CorruptModelError(
                f"no blob starts {place} (found 0x{sentinel:08X} instead of 0x{_SENTINEL:08X})",
                "the weight file is damaged or belongs to another model; download it again",
            )
        found = BLOB_TYPES.get(number)
        if found is not self.type.dtype:
            kind = f"unknown type {number}" if found is None else found.value
            raise CorruptModelError(
                f"the blob {place} contains {kind}, but the program declares {ir.describe_type(self.type)}",
                "the weight file belongs to another version of the model; get both from one source",
            )
        if size != self.type.nbytes:
            raise CorruptModelError(
                f"the blob {place} has {size} bytes, but {ir.describe_type(self.type)} "
                f"needs {self.type.nbytes}",
                "the weight file belongs to another version of the model; get both from one source",
            )
        self.storage.read(start, size, what)
        return start, size

    def packed(self) -> memoryview:
        """Returns the packed elements. Errors are those of `location`."""
        start, size = self.location()
        return self.storage.read(start, size, "a blob")

    def numpy(self) -> ir.Array:
        """Returns the unpacked elements. If NumPy has the type, they are a view of the mapping.

        Errors are those of `location`.
        """
        return unpack(self.packed(), self.type)

    def _check_version(self) -> None:
        header = self.storage.read(0, _HEADER.size, "the header")
        _, version = _HEADER.unpack(header)
        if version != _VERSION:
            raise CorruptModelError(
                f"the weight file {shown(self.storage.name)} has storage version {version}, not {_VERSION}",
                self.storage._hint(header)
                or "the file is damaged or was written by a newer version of Core ML",
            )


class BlobWriter:
    """Writes blobs to a new weight file. Equal blobs are stored once.

    It is a context manager, which writes the header on exit.
    """

    def __init__(self, path: Path) -> None:
        self._file = open_draft(path)
        self._file.write(bytes(_HEADER.size))
        self._offsets: dict[tuple[ir.DType, bytes], int] = {}

    @staticmethod
    def accepts(dtype: ir.DType) -> bool:
        """True for element types that are allowed in weight files."""
        return dtype in _BLOB_NUMBERS

    def write(self, constant: ir.Constant) -> int:
        """Writes a tensor and returns the offset of its metadata."""
        import hashlib

        assert isinstance(constant.type, ir.TensorType)
        dtype = constant.type.dtype
        packed = (
            constant.data.packed() if isinstance(constant.data, BlobData) else pack(constant.numpy(), dtype)
        )
        key = dtype, hashlib.sha256(packed).digest()
        if key not in self._offsets:
            self._offsets[key] = self._append(dtype, packed, constant.type.elements or 0)
        return self._offsets[key]

    def _append(self, dtype: ir.DType, packed: bytes | memoryview, elements: int) -> int:
        offset = self._align()
        padding_bits = len(packed) * 8 - elements * dtype.bits
        metadata = _SENTINEL, _BLOB_NUMBERS[dtype], len(packed), offset + _METADATA.size, padding_bits
        self._file.write(_METADATA.pack(*metadata))
        self._file.write(packed)
        return offset

    def _align(self) -> int:
        position = self._file.tell()
        aligned = -(-position // ALIGNMENT) * ALIGNMENT
        self._file.write(bytes(aligned - position))
        return aligned

    def __enter__(self) -> BlobWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.seek(0)
        self._file.write(_HEADER.pack(len(self._offsets), _VERSION))
        self._file.close()
