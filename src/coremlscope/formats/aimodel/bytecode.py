"""Reading of MLIR bytecode, versions 5 and 6: sections, strings, dialects, resources and the operations.

Attributes and types stay encoded: their encodings belong to the dialect, and most files have far more than
are needed. Every count is checked against the bytes that are left, so that a damaged file takes no more
memory than a multiple of its size.
(Sources: "MLIR Bytecode Format", mlir.llvm.org/docs/BytecodeFormat, and `mlir/lib/Bytecode` of LLVM.)
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import msgspec

from coremlscope.base.errors import NotAModelError, UnsupportedModelError
from coremlscope.formats.aimodel.cursor import Cursor, damaged

MAGIC = b"ML\xefR"
#: The versions of the format that are read: properties since 5, their compact segment sizes since 6.
VERSIONS = (5, 6)

_STRINGS, _DIALECTS, _ATTR_TYPES, _OFFSETS, _IR, _RESOURCES, _RESOURCE_OFFSETS, _VERSION, _PROPERTIES = range(
    9
)
_REQUIRED = (_STRINGS, _DIALECTS, _ATTR_TYPES, _OFFSETS, _IR)

#: Bits of the mask of an operation: what its encoding contains.
_HAS_ATTRIBUTES, _HAS_RESULTS, _HAS_OPERANDS, _HAS_SUCCESSORS = 1, 2, 4, 8
_HAS_REGIONS, _HAS_USE_ORDERS, _HAS_PROPERTIES = 16, 32, 64

#: Upper limits. The largest published Core AI models have fewer than 100,000 operations.
_MOST_OPERATIONS = 1_000_000
_MOST_ENTRIES = 4_000_000
_MOST_VALUES = 4_000_000
#: Maximum nesting depth of regions.
_MOST_DEPTH = 48
_MOST_PRODUCER_BYTES = 1024
#: The kind of a resource that is a blob.
_BLOB = 0


class EncodedEntry(msgspec.Struct, frozen=True):
    """An encoded attribute or type.

    Attributes:
        dialect: The index of its dialect.
        start: The offset of its first byte in the file.
        end: The offset of its end.
        is_custom: True for the dialect's own encoding, False for text.
    """

    dialect: int
    start: int
    end: int
    is_custom: bool


class Resource(msgspec.Struct, frozen=True):
    """A blob of data in the file.

    Attributes:
        offset: The offset of its first byte in the file.
        size: Its size in bytes.
    """

    offset: int
    size: int


@dataclass(slots=True, eq=False)
class EncodedValue:
    """A result of an operation or an argument of a block. `type` is an index of the table of types."""

    type: int = -1


@dataclass(slots=True, eq=False, kw_only=True)
class Operation:
    """An operation.

    Attributes:
        name: Its name, with that of its dialect: `aicode.relu_v1`.
        location: The index of its location in the table of attributes.
        attributes: The index of a dictionary in the table of attributes; None for no attributes.
        properties: The index of its encoded properties; None for none.
        results: Its results.
        operands: Its arguments.
        regions: Its nested regions.
    """

    name: str
    location: int
    attributes: int | None = None
    properties: int | None = None
    results: tuple[EncodedValue, ...] = ()
    operands: tuple[EncodedValue, ...] = ()
    regions: tuple[Region, ...] = ()


@dataclass(slots=True, eq=False)
class EncodedBlock:
    """A list of operations with arguments."""

    arguments: tuple[EncodedValue, ...]
    operations: list[Operation] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Region:
    """A list of blocks."""

    blocks: list[EncodedBlock]


class Bytecode(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file.

    Attributes:
        version: The version of the format.
        producer: The program that wrote it: `MLIR22.0.0git`.
        dialects: The names of its dialects.
        strings: The table of strings.
        attributes: The table of encoded attributes.
        types: The table of encoded types.
        properties: The encoded properties of operations.
        resources: The blobs by name.
        resource_names: The names of all resources in the file's order, to which handles refer.
        operations: The operations at the top level.
        data: The bytes of the file.
    """

    version: int
    producer: str
    dialects: tuple[str, ...]
    strings: tuple[str, ...]
    attributes: tuple[EncodedEntry, ...]
    types: tuple[EncodedEntry, ...]
    properties: tuple[Cursor, ...]
    resources: dict[str, Resource]
    resource_names: tuple[str, ...]
    operations: list[Operation]
    data: memoryview


def read_bytecode(data: memoryview) -> Bytecode:
    """Reads a file.

    Raises:
        NotAModelError: It is not MLIR bytecode.
        UnsupportedModelError: Its version cannot be read.
        CorruptModelError: It is damaged.
    """
    version, cursor = _open(data)
    if version not in VERSIONS:
        raise UnsupportedModelError(
            f"version {version} of MLIR bytecode is not supported",
            f"the versions {VERSIONS[0]} to {VERSIONS[-1]} are",
        )
    producer = cursor.text(_MOST_PRODUCER_BYTES)
    sections = _read_sections(cursor)
    strings = _read_strings(sections[_STRINGS])
    dialects, _, names = _read_dialects(sections[_DIALECTS], strings)
    attributes, types = _read_entries(sections[_ATTR_TYPES], sections[_OFFSETS], len(dialects))
    properties = _read_properties(sections.get(_PROPERTIES))
    resource_names, resources = _read_resources(sections, strings, len(dialects))
    program = _Program(names, len(attributes), len(types), len(properties))
    return Bytecode(
        version=version,
        producer=producer,
        dialects=dialects,
        strings=strings,
        attributes=attributes,
        types=types,
        properties=properties,
        resources=resources,
        resource_names=resource_names,
        operations=program.read(sections[_IR]),
        data=data,
    )


def read_versions(data: memoryview) -> tuple[int, dict[str, int | None]]:
    """Returns the version of a file's format, and those of its dialects where the format is known.

    Raises:
        NotAModelError: It is not MLIR bytecode.
        CorruptModelError: It is damaged.
    """
    version, cursor = _open(data)
    if version not in VERSIONS:
        return version, {}
    cursor.text(_MOST_PRODUCER_BYTES)
    sections = _read_sections(cursor)
    dialects, versions, _ = _read_dialects(sections[_DIALECTS], _read_strings(sections[_STRINGS]))
    return version, dict(zip(dialects, versions, strict=True))


def _open(data: memoryview) -> tuple[int, Cursor]:
    if bytes(data[:4]) != MAGIC:
        raise NotAModelError(
            "the program is not MLIR bytecode", "a Core AI bundle has its program in main.mlirb"
        )
    cursor = Cursor(data, 4, len(data))
    return cursor.varint(), cursor


def _read_section(cursor: Cursor) -> tuple[int, Cursor]:
    head = cursor.byte()
    size = cursor.varint()
    if head & 0x80:
        cursor.align(cursor.varint())
    return head & 0x7F, cursor.part(size)


def _read_sections(cursor: Cursor) -> dict[int, Cursor]:
    sections: dict[int, Cursor] = {}
    while cursor.left:
        number, part = _read_section(cursor)
        if number > _PROPERTIES or number in sections:
            raise damaged(f"it has an unknown or repeated section {number}")
        sections[number] = part
    missing = [number for number in _REQUIRED if number not in sections]
    if missing:
        raise damaged(f"section {missing[0]} is missing")
    return sections


def _read_strings(cursor: Cursor) -> tuple[str, ...]:
    """Reads the table of strings: their lengths from the last to the first, then all of them."""
    count = cursor.count("strings", _MOST_ENTRIES)
    lengths = [cursor.varint() for _ in range(count)]
    strings = []
    for length in reversed(lengths):
        raw = bytes(cursor.take(length))
        strings.append(raw.removesuffix(b"\0").decode("utf-8", "replace"))
    return tuple(strings)


def _read_dialects(
    cursor: Cursor, strings: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[int | None, ...], tuple[str, ...]]:
    """Reads the names and versions of the dialects, and the names of their operations."""
    dialects: list[str] = []
    versions: list[int | None] = []
    for _ in range(cursor.count("dialects")):
        index, is_versioned = cursor.flagged()
        dialects.append(_at(strings, index, "string"))
        version = None
        if is_versioned:
            number, part = _read_section(cursor)
            if number != _VERSION:
                raise damaged(f"section {number} is in place of the version of a dialect")
            version = part.varint()
        versions.append(version)
    cursor.varint()  # The number of operation names, which a reader may use to reserve memory.
    names: list[str] = []
    while cursor.left:
        dialect = dialects[cursor.index(len(dialects), "dialect")]
        for _ in range(cursor.count("operation names")):
            index, _ = cursor.flagged()
            names.append(f"{dialect}.{_at(strings, index, 'string')}")
    return tuple(dialects), tuple(versions), tuple(names)


def _at(table: tuple[str, ...], index: int, what: str) -> str:
    if index >= len(table):
        raise damaged(f"there is no {what} {index}, only {len(table)}")
    return table[index]


def _read_entries(
    content: Cursor, offsets: Cursor, dialects: int
) -> tuple[tuple[EncodedEntry, ...], tuple[EncodedEntry, ...]]:
    """Reads where each attribute and each type is encoded: their sizes, grouped by dialect."""
    attributes = offsets.count("attributes", _MOST_ENTRIES)
    types = offsets.count("types", _MOST_ENTRIES)
    entries: list[EncodedEntry] = []
    while offsets.left:
        dialect = offsets.index(dialects, "dialect")
        for _ in range(offsets.count("attributes or types")):
            size, is_custom = offsets.flagged()
            start = content.at
            content.part(size)
            entries.append(EncodedEntry(dialect, start, content.at, is_custom))
    if len(entries) != attributes + types:
        raise damaged(f"it declares {attributes + types} attributes and types, but has {len(entries)}")
    return tuple(entries[:attributes]), tuple(entries[attributes:])


def _read_properties(cursor: Cursor | None) -> tuple[Cursor, ...]:
    if cursor is None:
        return ()
    count = cursor.count("properties", _MOST_ENTRIES)
    return tuple(cursor.part(cursor.varint()) for _ in range(count))


def _read_resources(
    sections: dict[int, Cursor], strings: tuple[str, ...], dialects: int
) -> tuple[tuple[str, ...], dict[str, Resource]]:
    """Reads where the resources are. Those of external groups come first, then those of dialects.

    Returns:
        The names of the resources of dialects, and the blobs by name.
    """
    if _RESOURCE_OFFSETS not in sections or _RESOURCES not in sections:
        return (), {}
    offsets, content = sections[_RESOURCE_OFFSETS], sections[_RESOURCES]
    names: list[str] = []
    blobs: dict[str, Resource] = {}
    external = offsets.count("groups of resources")
    for group in itertools.count():
        if not offsets.left:
            break
        offsets.index(len(strings) if group < external else dialects, "group of resources")
        for _ in range(offsets.count("resources", _MOST_ENTRIES)):
            name = strings[offsets.index(len(strings), "string")]
            part = content.part(offsets.varint())
            kind = offsets.byte()
            if group < external:
                continue
            names.append(name)
            if kind == _BLOB and part.left:
                blobs[name] = _read_blob(part)
    return tuple(names), blobs


def _read_blob(part: Cursor) -> Resource:
    """Reads where the bytes of a blob are: after an alignment, a size and padding."""
    alignment, size = part.varint(), part.varint()
    part.align(alignment)
    start = part.at
    part.take(size)
    return Resource(start, size)


class _Program:
    """Reads the operations.

    Args:
        names: The names of operations, to which encodings refer.
        attributes: The number of attributes.
        types: The number of types.
        properties: The number of encoded properties.
    """

    def __init__(self, names: tuple[str, ...], attributes: int, types: int, properties: int) -> None:
        self._names = names
        self._attributes = attributes
        self._types = types
        self._properties = properties
        self._operations = 0
        self._values = 0

    def read(self, cursor: Cursor) -> list[Operation]:
        """Reads the block at the top level, which has no arguments and defines no values."""
        return self._block(cursor, _Scope(), 0).operations

    def _region(self, cursor: Cursor, scope: _Scope, depth: int) -> Region:
        if depth > _MOST_DEPTH:
            raise damaged(f"its regions are nested deeper than {_MOST_DEPTH} levels")
        blocks = cursor.count("blocks")
        if not blocks:
            return Region([])
        values = cursor.count("values")
        self._values += values
        if self._values > _MOST_VALUES:
            raise damaged(f"it has more than {_MOST_VALUES:,} values")
        scope.enter(values)
        region = Region([self._block(cursor, scope, depth) for _ in range(blocks)])
        scope.leave()
        return region

    def _block(self, cursor: Cursor, scope: _Scope, depth: int) -> EncodedBlock:
        operations, has_arguments = cursor.flagged()
        if operations > cursor.left:
            raise damaged(f"a block declares {operations} operations in {cursor.left} bytes")
        arguments: tuple[EncodedValue, ...] = ()
        if has_arguments:
            types = [self._argument(cursor) for _ in range(cursor.count("arguments"))]
            arguments = scope.define(types)
            if cursor.byte():
                _skip_use_orders(cursor, len(arguments))
        block = EncodedBlock(arguments)
        for _ in range(operations):
            block.operations.append(self._operation(cursor, scope, depth))
        return block

    def _argument(self, cursor: Cursor) -> int:
        type_, has_location = cursor.flagged()
        if type_ >= self._types:
            raise damaged(f"there is no type {type_}, only {self._types}")
        if has_location:
            cursor.index(self._attributes, "location")
        return type_

    def _operation(self, cursor: Cursor, scope: _Scope, depth: int) -> Operation:
        self._operations += 1
        if self._operations > _MOST_OPERATIONS:
            raise damaged(f"it has more than {_MOST_OPERATIONS:,} operations")
        name = self._names[cursor.index(len(self._names), "operation name")]
        mask = cursor.byte()
        operation = Operation(name=name, location=cursor.index(self._attributes, "location"))
        if mask & _HAS_ATTRIBUTES:
            operation.attributes = cursor.index(self._attributes, "attribute")
        if mask & _HAS_PROPERTIES:
            operation.properties = cursor.index(self._properties, "properties")
        types: list[int] = []
        if mask & _HAS_RESULTS:
            types = [cursor.index(self._types, "type") for _ in range(cursor.count("results"))]
        if mask & _HAS_OPERANDS:
            operation.operands = tuple(scope.at(cursor.varint()) for _ in range(cursor.count("operands")))
        if mask & _HAS_SUCCESSORS:
            for _ in range(cursor.count("successors")):
                cursor.varint()
        if mask & _HAS_USE_ORDERS:
            _skip_use_orders(cursor, len(types))
        regions, is_isolated = cursor.flagged() if mask & _HAS_REGIONS else (0, False)
        operation.results = scope.define(types)
        if regions:
            operation.regions = self._regions(cursor, scope, depth, regions, is_isolated)
        return operation

    def _regions(
        self, cursor: Cursor, scope: _Scope, depth: int, count: int, is_isolated: bool
    ) -> tuple[Region, ...]:
        """Reads the regions of an operation. Isolated ones are in a section and have their own values."""
        if is_isolated:
            number, cursor = _read_section(cursor)
            if number != _IR:
                raise damaged(f"section {number} is in place of the regions of an operation")
            scope = _Scope()
        if count > cursor.left:
            raise damaged(f"an operation declares {count} regions in {cursor.left} bytes")
        return tuple(self._region(cursor, scope, depth + 1) for _ in range(count))


class _Scope:
    """The values that operations may refer to by number. Each region reserves those that it defines."""

    def __init__(self) -> None:
        self._values: list[EncodedValue] = []
        self._starts: list[int] = []
        self._next: list[int] = []

    def enter(self, count: int) -> None:
        self._starts.append(len(self._values))
        self._next.append(len(self._values))
        self._values.extend(EncodedValue() for _ in range(count))

    def leave(self) -> None:
        if any(value.type < 0 for value in self._values[self._next.pop() :]):
            raise damaged("a value is declared but not defined")
        del self._values[self._starts.pop() :]

    def at(self, index: int) -> EncodedValue:
        if index >= len(self._values):
            raise damaged(f"there is no value {index}, only {len(self._values)}")
        return self._values[index]

    def define(self, types: list[int]) -> tuple[EncodedValue, ...]:
        if not self._next or not types:
            return tuple(EncodedValue(type_) for type_ in types)
        start = self._next[-1]
        values = tuple(self._values[start : start + len(types)])
        if len(values) < len(types):
            raise damaged("a region defines more values than it declares")
        for value, type_ in zip(values, types, strict=True):
            value.type = type_
        self._next[-1] += len(types)
        return values


def _skip_use_orders(cursor: Cursor, values: int) -> None:
    """Skips the orders of the uses of some values, which do not change what a program computes."""
    for _ in range(cursor.count("use-list orders") if values > 1 else 1):
        if values > 1:
            cursor.varint()
        size, _ = cursor.flagged()
        if size > cursor.left:
            raise damaged(f"a use-list order has {size} indices in {cursor.left} bytes")
        for _ in range(size):
            cursor.varint()
