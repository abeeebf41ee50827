"""Reading of the primitives of MLIR bytecode: bytes, integers of variable width, flags, strings.

(Source: "MLIR Bytecode Format", mlir.llvm.org/docs/BytecodeFormat.)
"""

from __future__ import annotations

from typing import NoReturn

from coremlscope.base.errors import CorruptModelError

_HINT = "the file is damaged or malicious; export or download the model again"


def damaged(message: str) -> CorruptModelError:
    """Returns the error for a damaged program."""
    return CorruptModelError(f"the Core AI program is damaged: {message}", _HINT)


class Cursor:
    """A position in a part of the file.

    Args:
        data: The bytes of the file.
        start: The offset of the part in the file.
        end: The offset of its end.

    Attributes:
        at: The offset of the next byte in the file.
        end: The offset of the end.
    """

    __slots__ = ("at", "data", "end")

    def __init__(self, data: memoryview, start: int, end: int) -> None:
        self.data = data
        self.at = start
        self.end = end

    @property
    def left(self) -> int:
        """The number of bytes that are left."""
        return self.end - self.at

    def byte(self) -> int:
        """Reads a byte."""
        if self.at >= self.end:
            self._short()
        value = self.data[self.at]
        self.at += 1
        return value

    def varint(self) -> int:
        """Reads an unsigned integer. The zeros in the low bits of its first byte count the further bytes."""
        first = self.byte()
        if first & 1:
            return first >> 1
        if first == 0:
            return int.from_bytes(self.take(8), "little")
        more = (first & -first).bit_length() - 1
        rest = int.from_bytes(self.take(more), "little")
        return (rest << 8 | first) >> (more + 1)

    def signed(self) -> int:
        """Reads a signed integer in zigzag encoding."""
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def flagged(self) -> tuple[int, bool]:
        """Reads an integer whose lowest bit is a flag."""
        value = self.varint()
        return value >> 1, bool(value & 1)

    def count(self, what: str, most: int | None = None) -> int:
        """Reads the number of elements that follow, each of which takes at least one byte.

        Raises:
            CorruptModelError: There are more than bytes are left, or more than `most`.
        """
        value = self.varint()
        if value > self.left or (most is not None and value > most):
            raise damaged(f"it declares {value} {what} in {self.left} bytes")
        return value

    def index(self, length: int, what: str) -> int:
        """Reads an index of a table.

        Raises:
            CorruptModelError: The table is shorter.
        """
        value = self.varint()
        if value >= length:
            raise damaged(f"there is no {what} {value}, only {length}")
        return value

    def take(self, size: int) -> memoryview:
        """Reads bytes without copying them."""
        if size > self.left:
            self._short()
        part = self.data[self.at : self.at + size]
        self.at += size
        return part

    def part(self, size: int) -> Cursor:
        """Reads bytes as a part of their own."""
        if size > self.left:
            self._short()
        self.at += size
        return Cursor(self.data, self.at - size, self.at)

    def text(self, most: int) -> str:
        """Reads a string that ends with a zero byte, of at most `most` bytes."""
        window = bytes(self.data[self.at : min(self.end, self.at + most + 1)])
        length = window.find(0)
        if length < 0:
            raise damaged(f"a string at byte {self.at} has no end")
        self.at += length + 1
        return window[:length].decode("utf-8", "replace")

    def align(self, alignment: int) -> None:
        """Skips the padding up to a multiple of `alignment` bytes in the file."""
        if alignment < 1 or alignment & (alignment - 1):
            raise damaged(f"an alignment of {alignment} bytes at byte {self.at}")
        target = -(-self.at // alignment) * alignment
        if target > self.end:
            self._short()
        self.at = target

    def _short(self) -> NoReturn:
        raise damaged(f"it ends too early, at byte {self.end}")
