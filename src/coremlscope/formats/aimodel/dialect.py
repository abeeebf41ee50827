"""Decoding of the attributes and types of the dialect `aicode`, in which Core AI stores programs.

Apple has not published these encodings. Each begins with a number, which says what it is. The numbers here
were found by writing programs of known content with coreai-core 1.0.0b3 and reading the files (version 2 of
the dialect). What has another number is kept as `Unknown`, and stops only the operations that need it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec

from coremlscope.formats.aimodel.bytecode import Bytecode, EncodedEntry
from coremlscope.formats.aimodel.cursor import Cursor, damaged
from coremlscope.model import ir

#: Element types by their number.
_ELEMENTS = {
    4: ir.DType.BOOL,
    5: ir.DType.FP64,
    6: ir.DType.FP32,
    7: ir.DType.FP16,
    8: ir.DType.BF16,
    9: ir.DType.FP8_E5M2,
    10: ir.DType.FP8_E4M3,
    17: ir.DType.INT64,
    18: ir.DType.INT32,
    19: ir.DType.INT16,
    20: ir.DType.INT8,
    21: ir.DType.INT4,
    23: ir.DType.UINT64,
    24: ir.DType.UINT32,
    25: ir.DType.UINT16,
    26: ir.DType.UINT8,
    27: ir.DType.UINT4,
    28: ir.DType.UINT2,
    29: ir.DType.UINT1,
    36: ir.DType.UINT6,
    37: ir.DType.UINT3,
}
#: Types that Core ML does not have, by number.
_OTHERS = {
    11: "complex<f64>",
    12: "complex<f32>",
    22: "si2",
    30: "function",
    32: "token",
    33: "none",
    46: "f4E2M1FN",
    47: "f8E8M0FNU",
}
_TENSOR, _HANDLE = 2, 31
#: The dimension that is unknown before run time.
_DYNAMIC = -(1 << 63)

#: Enumerations: of `pad` 17, `gelu` 19, `scan` 25, `interpolate` 43; 18 and 20 were not seen yet.
_CHOICES = frozenset({17, 18, 19, 20, 25, 43})

#: Nesting depth of attributes and types. Metadata of operations has a depth of 8.
_MOST_DEPTH = 32
_MOST_RANK = 32
_FLOATS = {16: "<e", 32: "<f", 64: "<d"}


class OtherType(msgspec.Struct, frozen=True):
    """A type that Core ML does not have: a token, a function, complex numbers.

    Attributes:
        name: Its name.
        is_unknown: True if its encoding is not known.
    """

    name: str
    is_unknown: bool = False


Type = ir.TensorType | ir.StateType | OtherType


class Unknown(msgspec.Struct, frozen=True):
    """An attribute with an encoding that is not known, by the number with which it begins."""

    number: int


class EnumMember(msgspec.Struct, frozen=True):
    """A member of an enumeration, by number."""

    number: int


class TypeNumber(msgspec.Struct, frozen=True):
    """A type as an attribute: an index of the table of types."""

    index: int


class ResourceName(msgspec.Struct, frozen=True):
    """The elements of a tensor, in a resource."""

    name: str


class Dense(msgspec.Struct, frozen=True):
    """The elements of a tensor, in the table of attributes.

    Attributes:
        offset: The offset of the first byte in the file.
        size: The number of bytes.
        is_splat: True if all elements are equal; most types then have a single one.
    """

    offset: int
    size: int
    is_splat: bool


class Flags(msgspec.Struct, frozen=True):
    """Truth values of one bit each, the first one in the lowest bit; a single byte for equal ones.

    Attributes:
        offset: The offset of the first byte in the file.
        size: The number of bytes.
    """

    offset: int
    size: int


class Location(msgspec.Struct, frozen=True):
    """The source location of an operation: metadata by name (`call_stack`, `op_id`, `sources`)."""

    metadata: dict[str, Attribute]


Attribute = (
    str
    | bool
    | int
    | float
    | tuple["Attribute", ...]
    | dict[str, "Attribute"]
    | EnumMember
    | TypeNumber
    | ResourceName
    | Dense
    | Flags
    | Location
    | Unknown
)


class Decoder:
    """Decodes attributes and types on demand, each once.

    Args:
        bytecode: The content of a file.
    """

    def __init__(self, bytecode: Bytecode) -> None:
        self.bytecode = bytecode
        self._types: dict[int, Type] = {}
        self._attributes: dict[int, Attribute] = {}

    # Types

    def type(self, index: int, depth: int = 0) -> Type:
        """Returns a type.

        Raises:
            CorruptModelError: It is damaged.
        """
        if index not in self._types:
            cursor = self._open(self.bytecode.types, index, "type", depth)
            self._types[index] = (
                OtherType("unknown", is_unknown=True) if cursor is None else self._read_type(cursor, depth)
            )
        return self._types[index]

    def _read_type(self, cursor: Cursor, depth: int) -> Type:
        number = cursor.varint()
        if number == _TENSOR:
            return self._tensor(cursor, depth)
        if number == _HANDLE:
            wrapped = self.type(cursor.varint(), depth + 1)
            if not isinstance(wrapped, ir.TensorType):
                return OtherType("handle")
            return ir.StateType(wrapped)
        element = _ELEMENTS.get(number)
        if element is not None:
            return ir.TensorType(element, ())
        name = _OTHERS.get(number)
        return OtherType(f"type {number}", is_unknown=True) if name is None else OtherType(name)

    def _tensor(self, cursor: Cursor, depth: int) -> Type:
        rank = cursor.count("dimensions", _MOST_RANK)
        dims = [cursor.signed() for _ in range(rank)]
        element = self.type(cursor.varint(), depth + 1)
        if any(size < 0 and size != _DYNAMIC for size in dims):
            raise damaged(f"a tensor has the shape {dims}")
        if not isinstance(element, ir.TensorType) or element.shape != ():
            return OtherType(element.name) if isinstance(element, OtherType) else OtherType("nested tensor")
        return ir.TensorType(element.dtype, tuple(None if size == _DYNAMIC else size for size in dims))

    # Attributes

    def attribute(self, index: int, depth: int = 0) -> Attribute:
        """Returns an attribute.

        Raises:
            CorruptModelError: It is damaged.
        """
        if index not in self._attributes:
            cursor = self._open(self.bytecode.attributes, index, "attribute", depth)
            self._attributes[index] = Unknown(-1) if cursor is None else self._read_attribute(cursor, depth)
        return self._attributes[index]

    def _open(self, table: tuple[EncodedEntry, ...], index: int, what: str, depth: int) -> Cursor | None:
        """Returns the encoding of an entry; None for one that is text."""
        if index >= len(table):
            raise damaged(f"there is no {what} {index}, only {len(table)}")
        if depth > _MOST_DEPTH:
            raise damaged(f"its attributes are nested deeper than {_MOST_DEPTH} levels")
        entry = table[index]
        return Cursor(self.bytecode.data, entry.start, entry.end) if entry.is_custom else None

    def _read_attribute(self, cursor: Cursor, depth: int) -> Attribute:
        number = cursor.varint()
        read = _READERS.get(number)
        if read is not None:
            return read(self, cursor, depth)
        if number in _CHOICES and cursor.left == 1:
            return EnumMember(cursor.varint())
        return Unknown(number)

    def _text(self, cursor: Cursor) -> str:
        strings = self.bytecode.strings
        return strings[cursor.index(len(strings), "string")]

    def _array(self, cursor: Cursor, depth: int) -> tuple[Attribute, ...]:
        count = cursor.count("elements of an array")
        return tuple(self.attribute(cursor.varint(), depth + 1) for _ in range(count))

    def _dictionary(self, cursor: Cursor, depth: int) -> Attribute:
        """Reads entries, each of which is a dictionary of one name."""
        joined: dict[str, Attribute] = {}
        for entry in self._array(cursor, depth):
            if not isinstance(entry, dict):
                raise damaged("an entry of a dictionary has no name")
            joined.update(entry)
        return joined

    def _named(self, cursor: Cursor, depth: int) -> Attribute:
        """Reads a name with one attribute, or with several named ones."""
        name = self._text(cursor)
        values = self._array(cursor, depth)
        if len(values) == 1:
            return {name: values[0]}
        joined: dict[str, Attribute] = {}
        for value in values:
            joined.update(value if isinstance(value, dict) else {})
        return {name: joined}

    def _symbol(self, cursor: Cursor, depth: int) -> Attribute:
        return "/".join(self._text(cursor) for _ in range(cursor.count("names")))

    def _resource(self, cursor: Cursor, depth: int) -> Attribute:
        names = self.bytecode.resource_names
        return ResourceName(names[cursor.index(len(names), "resource")])

    def _location(self, cursor: Cursor, depth: int) -> Attribute:
        """Reads a location: a position, its scope, other locations fused with it, and metadata."""
        cursor.varint()
        cursor.varint()
        for _ in range(cursor.count("locations")):
            cursor.varint()
        metadata = self._dictionary(cursor, depth)
        assert isinstance(metadata, dict)
        return Location(metadata)


def _read_integer(cursor: Cursor) -> Attribute:
    width, is_unsigned = cursor.varint(), cursor.byte()
    if not 1 <= width <= 64:
        return Unknown(_INTEGER)
    value = cursor.byte() if width <= 8 else cursor.signed()
    if width == 1:
        return bool(value)
    value &= (1 << width) - 1
    return value if is_unsigned or value < 1 << (width - 1) else value - (1 << width)


def _read_float(cursor: Cursor) -> Attribute:
    width = cursor.varint()
    if width not in _FLOATS:
        return Unknown(_FLOAT)
    bits = cursor.signed() & ((1 << width) - 1)
    value: float = struct.unpack(_FLOATS[width], bits.to_bytes(width // 8, "little"))[0]
    return value


def _read_dense(cursor: Cursor) -> Attribute:
    is_splat = bool(cursor.byte())
    size = cursor.varint()
    offset = cursor.at
    cursor.take(size)
    return Dense(offset, size, is_splat)


_INTEGER, _FLOAT = 2, 3
#: How attributes are read, by their number.
_READERS: dict[int, Callable[[Decoder, Cursor, int], Attribute]] = {
    1: lambda decoder, cursor, _: decoder._text(cursor),
    _INTEGER: lambda _, cursor, __: _read_integer(cursor),
    _FLOAT: lambda _, cursor, __: _read_float(cursor),
    4: lambda _, cursor, __: TypeNumber(cursor.varint()),
    5: Decoder._array,
    6: lambda _, cursor, __: _read_dense(cursor),
    7: Decoder._resource,
    9: Decoder._named,
    14: Decoder._symbol,
    16: lambda decoder, cursor, depth: decoder.attribute(cursor.varint(), depth + 1),
    33: lambda decoder, cursor, depth: decoder.attribute(cursor.varint(), depth + 1),
    35: lambda decoder, cursor, depth: {decoder._text(cursor): decoder.attribute(cursor.varint(), depth + 1)},
    40: Decoder._location,
    45: Decoder._dictionary,
}
