"""Protobuf messages as bytes, for messages that protobuf itself cannot build."""

from __future__ import annotations

__all__ = ["field", "varint"]


def varint(number: int) -> bytes:
    """Encodes an unsigned number."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def field(number: int, content: bytes) -> bytes:
    """Encodes a length-delimited field."""
    return varint(number << 3 | 2) + varint(len(content)) + content
