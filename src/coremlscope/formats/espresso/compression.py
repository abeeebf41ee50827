"""Compressed files: the container `pbze`, whose chunks are compressed with LZFSE.

All numbers are big-endian: the magic `pbze`, `u64` size of a chunk before compression, then for each chunk
its `u64` size before and after compression and its bytes. A chunk with equal sizes is stored as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError, how_to_install

_MAGIC = b"pbze"
_HEADER = struct.Struct(">4sQ")
_CHUNK = struct.Struct(">QQ")
#: The largest files of published models have some megabytes.
_MAX_BYTES = 256 << 20
_DAMAGED = "the file is damaged or incomplete; copy or download the whole folder again"


def is_compressed(data: bytes) -> bool:
    """True if the bytes start with the magic of the container."""
    return data.startswith(_MAGIC)


def decompress(data: bytes, name: str) -> bytes:
    """Returns the content of a compressed file.

    Args:
        data: The bytes of the file.
        name: The name of the file in error messages.

    Raises:
        UnsupportedModelError: The package with the decoder is not installed.
        CorruptModelError: The file is damaged.
    """
    decode = _decoder(name)
    parts = []
    for size, chunk in _chunks(data, name):
        part = chunk if len(chunk) == size else decode(chunk)
        if len(part) != size:
            raise CorruptModelError(f"a chunk of {name} has {len(part)} bytes instead of {size}", _DAMAGED)
        parts.append(part)
    return b"".join(parts)


def _chunks(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """Yields the size before compression and the stored bytes of each chunk."""
    position, total = _HEADER.size, 0
    if len(data) < position:
        raise CorruptModelError(f"{name} ends in its header", _DAMAGED)
    while position < len(data):
        if position + _CHUNK.size > len(data):
            raise CorruptModelError(f"{name} ends in the header of a chunk", _DAMAGED)
        size, stored = _CHUNK.unpack_from(data, position)
        position += _CHUNK.size
        total += size
        if position + stored > len(data):
            raise CorruptModelError(f"{name} ends in a chunk", _DAMAGED)
        if total > _MAX_BYTES:
            raise CorruptModelError(f"{name} declares a content of {total} bytes", _DAMAGED)
        yield size, data[position : position + stored]
        position += stored


def _decoder(name: str) -> Callable[[bytes], bytes]:
    try:
        import lzfse
    except ImportError:
        raise UnsupportedModelError(
            f"{name} is compressed with LZFSE, whose decoder is not installed",
            how_to_install("lzfse"),
        ) from None

    def decode(chunk: bytes) -> bytes:
        try:
            content: bytes = lzfse.decompress(chunk)
        except lzfse.error:
            raise CorruptModelError(f"a compressed chunk of {name} is damaged", _DAMAGED) from None
        return content

    return decode
