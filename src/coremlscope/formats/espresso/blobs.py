"""The weight file of a compiled neural network: numbered blobs of bytes.

A file starts with the `u64` number of blobs and a table of `u64` number and `u64` size in bytes of each blob;
the blobs follow in the order of the table. Blobs with even numbers are padding. All numbers are little-
endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import msgspec

from coremlscope.base.errors import CorruptModelError
from coremlscope.base.units import shown
from coremlscope.formats.weights import WeightStorage

_COUNT = struct.Struct("<Q")
_ENTRY = struct.Struct("<QQ")
_DAMAGED = "the weight file is damaged or incomplete; copy or download the whole folder again"


class BlobRange(msgspec.Struct, frozen=True, eq=False):
    """The bytes of one blob.

    Attributes:
        storage: The weight file.
        number: The number of the blob.
        offset: Offset of its first byte; 0 if the file is missing.
        size: Its size in bytes; None if the file is missing.
    """

    storage: WeightStorage
    number: int
    offset: int = 0
    size: int | None = None

    @property
    def is_available(self) -> bool:
        """False if the weight file is missing."""
        return self.size is not None

    def read(self) -> memoryview:
        """Returns the bytes without copying them.

        Raises:
            MissingWeightsError: The file is missing or too short.
        """
        return self.storage.read(self.offset, self.size or 0, f"the blob {self.number}")


class BlobFile(msgspec.Struct, frozen=True, eq=False):
    """The table of a weight file.

    Attributes:
        storage: The file.
        table: Offset and size of each blob by its number; empty if the file is missing.
    """

    storage: WeightStorage
    table: Mapping[int, tuple[int, int]] = msgspec.field(default_factory=dict)

    @classmethod
    def open(cls, storage: WeightStorage) -> BlobFile:
        """Reads the table of a weight file, which may be missing.

        Raises:
            CorruptModelError: The table is damaged, or the file is too short for its blobs.
        """
        size = storage.size
        if size is None:
            return cls(storage)
        name = shown(storage.name)
        if size < _COUNT.size:
            raise CorruptModelError(f"the weight file {name} has only {size} bytes", _DAMAGED)
        (count,) = _COUNT.unpack(storage.read(0, _COUNT.size, "the header"))
        start = _COUNT.size + count * _ENTRY.size
        if start > size:
            raise CorruptModelError(
                f"the weight file {name} declares {count} blobs, but has only {size} bytes",
                _DAMAGED,
            )
        table: dict[int, tuple[int, int]] = {}
        for number, length in _ENTRY.iter_unpack(storage.read(_COUNT.size, start - _COUNT.size, "the table")):
            if number in table:
                raise CorruptModelError(f"the weight file {name} has two blobs {number}", _DAMAGED)
            table[number] = start, length
            start += length
        if start > size:
            raise CorruptModelError(
                f"the weight file {name} has {size} bytes, but its blobs need {start}", _DAMAGED
            )
        return cls(storage, table)

    @property
    def is_available(self) -> bool:
        """False if the file is missing."""
        return self.storage.size is not None

    def find(self, number: int) -> BlobRange | None:
        """Returns a blob; None if the file has no blob with this number."""
        if not self.is_available:
            return BlobRange(self.storage, number)
        if number not in self.table:
            return None
        offset, size = self.table[number]
        return BlobRange(self.storage, number, offset, size)
