"""Writing of Core AI bundles: MLIR bytecode with the dialect `aicode`, as coreai-core writes it.

def body(b, x):
    return [b.op("relu", [x], [x.type])]

write_bundle(folder / "net.aimodel", [Graph("main", {"x": tensor("fp32", 1, 3)}, body)])
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.formats.aimodel.dialect import _ELEMENTS
from coremlscope.formats.packing import pack
from coremlscope.model.ir import DType

__all__ = [
    "TOKEN",
    "Body",
    "Graph",
    "Type",
    "Val",
    "handle",
    "tensor",
    "write_bundle",
    "write_numbered",
    "write_program",
]

_NUMBERS = {dtype: number for number, dtype in _ELEMENTS.items()}
_LARGE_BYTES = 1024


@dataclass(frozen=True)
class Type:
    """A type: a tensor with an element type and dimensions, a handle of one, or a token."""

    kind: str
    dtype: DType = DType.FP32
    dims: tuple[int | None, ...] = ()


TOKEN = Type("token")


def tensor(dtype: str, *dims: int | None) -> Type:
    """Returns the type of a tensor; None is a dynamic dimension."""
    return Type("tensor", DType(dtype), dims)


def handle(dtype: str, *dims: int) -> Type:
    """Returns the type of a state."""
    return Type("handle", DType(dtype), dims)


@dataclass(eq=False)
class Val:
    """A value. `number` is assigned when it is written."""

    type: Type
    number: int = -1


@dataclass(eq=False)
class _Op:
    name: str
    operands: Sequence[Val]
    results: list[Val]
    properties: bytes | None
    regions: Sequence[_Region] = ()
    location: int = 0


@dataclass(eq=False)
class _Region:
    arguments: list[Val]
    ops: list[_Op] = field(default_factory=list)


@dataclass
class Graph:
    """A graph.

    Attributes:
        name: Its name.
        inputs: The types of its inputs by name.
        body: Emits its operations, and returns its results.
        outputs: The names of its results.
        composite: The name, arguments and attributes of the operation that it stands for.
    """

    name: str
    inputs: Mapping[str, Type]
    body: Callable[..., Sequence[Val]]
    outputs: Sequence[str] = ("y",)
    composite: tuple[str, Sequence[str], Mapping[str, Any]] | None = None
    is_private: bool = False


def _varint(value: int) -> bytes:
    for size in range(1, 9):
        if value < 1 << (7 * size):
            return (value << size | 1 << (size - 1)).to_bytes(size, "little")
    return b"\0" + value.to_bytes(8, "little")


def _signed(value: int) -> bytes:
    return _varint((value << 1 ^ value >> 63) & (1 << 64) - 1)


class _Tables:
    """The tables of a file, to which everything refers by number."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.attributes: dict[bytes, int] = {}
        self.types: dict[bytes, int] = {}
        self.names: dict[str, int] = {}
        self.properties: list[bytes] = []
        self.resources: list[bytes] = []
        #: The number of the next operation; None if operations have none.
        self.next_number: int | None = None

    def string(self, text: str) -> bytes:
        return _varint(self.strings.setdefault(text, len(self.strings)))

    def attribute(self, number: int, *parts: bytes) -> int:
        data = _varint(number) + b"".join(parts)
        return self.attributes.setdefault(data, len(self.attributes))

    def any(self, value: Any) -> int:
        """Returns the number of an attribute: text, a number, a list or a dictionary."""
        match value:
            case bool():
                return self.attribute(2, _varint(1), bytes([1, value]))
            case int():
                return self.attribute(2, _varint(64), b"\0", _signed(value))
            case float():
                bits = int(np.float32(value).view(np.uint32))
                return self.attribute(3, _varint(32), _signed(bits))
            case str():
                return self.attribute(1, self.string(value))
            case dict():
                entries = [self.named(name, self.any(inner)) for name, inner in value.items()]
                return self.attribute(45, _varint(len(entries)), *map(_varint, entries))
            case _:
                entries = [self.any(inner) for inner in value]
                return self.attribute(5, _varint(len(entries)), *map(_varint, entries))

    def named(self, name: str, *values: int) -> int:
        return self.attribute(9, self.string(name), _varint(len(values)), *map(_varint, values))

    def location(self) -> int:
        """Returns the location of the next operation, with its number if it has one."""
        if self.next_number is None:
            return 0
        kind = self.named("type", self.any("coreai"))
        entry = self.named("op_id", kind, self.named("value", self.any(self.next_number)))
        self.next_number += 1
        return self.attribute(40, *map(_varint, (0, 0, 0, 1, entry)))

    def array(self, values: Sequence[int]) -> int:
        return self.attribute(5, _varint(len(values)), *map(_varint, values))

    def type(self, type_: Type) -> int:
        if type_.kind == "token":
            data = _varint(32)
        elif type_.kind == "handle":
            data = _varint(31) + _varint(self.type(tensor(type_.dtype.value, *type_.dims)))
        else:
            element = _varint(_NUMBERS[type_.dtype])
            index = self.types.setdefault(element, len(self.types))
            dims = b"".join(_signed(-(1 << 63) if d is None else d) for d in type_.dims)
            data = _varint(2) + _varint(len(type_.dims)) + dims + _varint(index)
        return self.types.setdefault(data, len(self.types))

    def elements(self, array: np.ndarray, dtype: DType) -> int:
        """Returns the number of an attribute with elements; many of them become a resource."""
        packed = pack(array, dtype)
        if len(packed) > _LARGE_BYTES:
            self.resources.append(packed)
            self.string(f"resource_{len(self.resources)}")
            return self.attribute(7, _varint(len(self.resources) - 1))
        raw = packed if dtype.bits == 1 or dtype.bits >= 8 else array.astype(np.uint8).tobytes()
        return self.attribute(6, b"\0", _varint(len(raw)), raw)


class Body:
    """Emits the operations of a block."""

    def __init__(self, tables: _Tables, region: _Region) -> None:
        self._tables = tables
        self._region = region

    def op(
        self,
        name: str,
        operands: Sequence[Val],
        types: Sequence[Type],
        *,
        choice: tuple[int, int] | None = None,
        blocks: Sequence[tuple[Sequence[Type], Callable[..., Sequence[Val]]]] = (),
    ) -> Any:
        """Emits an operation and returns its result, or all of them.

        Args:
            name: Its name, with a version or without.
            operands: Its arguments.
            types: The types of its results.
            choice: The numbers of an enumeration and of its member, as its only attribute.
            blocks: The types of the arguments of each block, and a function that emits it.
        """
        properties = None
        if choice is not None:
            properties = _varint(self._tables.attribute(choice[0], _varint(choice[1])))
        regions = [self._block(arguments, write) for arguments, write in blocks]
        return self._append(name, operands, types, properties, regions)

    def _block(self, arguments: Sequence[Type], write: Callable[..., Sequence[Val]]) -> _Region:
        region = _Region([Val(type_) for type_ in arguments])
        inner = Body(self._tables, region)
        inner._append("dataflow.yield", list(write(inner, *region.arguments)), [], None)
        return region

    def constant(self, value: Any, dtype: str = "") -> Val:
        """Emits a constant; integers are si32 and real numbers fp32 by default."""
        array = np.asarray(value)
        kind = (
            DType(dtype) if dtype else {"f": DType.FP32, "b": DType.BOOL}.get(array.dtype.kind, DType.INT32)
        )
        properties = _varint(self._tables.elements(array.astype(kind.numpy), kind))
        found: Val = self._append("constant", [], [Type("tensor", kind, array.shape)], properties)
        return found

    def call(self, graph: str, operands: Sequence[Val], types: Sequence[Type]) -> Any:
        """Emits a call of another graph."""
        t = self._tables
        t.types.setdefault(_varint(33), len(t.types))
        symbol = t.attribute(14, _varint(1), t.string(graph))
        callee = t.attribute(16, _varint(symbol), _varint(t.types[_varint(33)]))
        none = t.array([])
        properties = _varint(none) + _varint(callee) + _varint(none)
        return self._append("dataflow.invoke", operands, types, properties)

    def _append(
        self,
        name: str,
        operands: Sequence[Val],
        types: Sequence[Type],
        properties: bytes | None,
        regions: Sequence[_Region] = (),
    ) -> Any:
        versioned = name if name.rpartition("_v")[2].isdecimal() else f"{name}_v1"
        results = [Val(type_) for type_ in types]
        op = _Op(versioned, operands, results, properties, regions, self._tables.location())
        self._region.ops.append(op)
        return results[0] if len(results) == 1 else results


def write_program(graphs: Sequence[Graph], *, is_numbered: bool = False) -> bytes:
    """Returns the bytes of a program, whose operations may have numbers, from 0 in the program's order."""
    t = _Tables()
    t.attribute(46)  # the location of operations without a number
    t.next_number = 0 if is_numbered else None
    encoded = b"".join(_graph(t, graph) for graph in graphs)
    asset = _op_head(t, "serialization.asset", 16) + _varint(1 << 1)
    region = _varint(1) + _varint(0) + _varint(len(graphs) << 1) + encoded
    ir_section = _varint(1 << 1) + asset + region
    return _file(t, ir_section)


def _graph(t: _Tables, graph: Graph) -> bytes:
    region = _Region([Val(type_) for type_ in graph.inputs.values()])
    body = Body(t, region)
    results = list(graph.body(body, *region.arguments))
    body._append("dataflow.output", results, [], None)
    names = [t.array([t.named("aicode.name", t.any(name))]) for name in graph.inputs]
    outputs = [t.array([t.named("aicode.name", t.any(name))]) for name in graph.outputs]
    function = _varint(30) + _varint(0) + _varint(0)
    composite = 0
    if graph.composite is not None:
        name, arguments, attributes = graph.composite
        parts = [t.named("input_names", t.any(list(arguments))), t.named("op_attrs", t.any(dict(attributes)))]
        composite = t.named(name, *parts) << 1 | 1
    properties = [
        t.array(names),
        composite,
        t.any(False),
        t.attribute(4, _varint(t.types.setdefault(function, len(t.types)))),
        t.any(False),
        t.any(graph.name),
        t.any(graph.is_private),
        t.array([]),
        t.array(outputs),
    ]
    t.properties.append(b"".join(map(_varint, properties)))
    head = _op_head(t, "dataflow.graph_v1", 16 | 64) + _varint(len(t.properties) - 1)
    content = _region(t, region, 0)
    section = bytes([4]) + _varint(len(content)) + content
    return head + _varint(1 << 1 | 1) + section


def _op_head(t: _Tables, name: str, mask: int, location: int = 0) -> bytes:
    t.string(name)
    return _varint(t.names.setdefault(name, len(t.names))) + bytes([mask]) + _varint(location)


def _region(t: _Tables, region: _Region, base: int) -> bytes:
    count = len(region.arguments) + sum(len(op.results) for op in region.ops)
    numbers = iter(range(base, base + count))
    for value in region.arguments:
        value.number = next(numbers)
    arguments = b""
    if region.arguments:
        types = b"".join(_varint(t.type(value.type) << 1) for value in region.arguments)
        arguments = _varint(len(region.arguments)) + types + b"\0"
    ops = b""
    for op in region.ops:
        for value in op.results:
            value.number = next(numbers)
        ops += _operation(t, op, base + count)
    return _varint(1) + _varint(count) + _varint(len(region.ops) << 1 | bool(arguments)) + arguments + ops


def _operation(t: _Tables, op: _Op, base: int) -> bytes:
    parts, mask = b"", 0
    if op.properties is not None:
        t.properties.append(op.properties)
        parts += _varint(len(t.properties) - 1)
        mask |= 64
    if op.results:
        parts += _varint(len(op.results)) + b"".join(_varint(t.type(value.type)) for value in op.results)
        mask |= 2
    if op.operands:
        parts += _varint(len(op.operands)) + b"".join(_varint(value.number) for value in op.operands)
        mask |= 4
    if op.regions:
        parts += _varint(len(op.regions) << 1) + b"".join(_region(t, region, base) for region in op.regions)
        mask |= 16
    return _op_head(t, op.name, mask, op.location) + parts


def _file(t: _Tables, ir_section: bytes) -> bytes:
    names = b"".join(_varint(t.strings[name] << 1 | 1) for name in t.names)
    dialect = t.strings.setdefault("aicode", len(t.strings))
    version = bytes([7]) + _varint(1) + _varint(2)
    dialects = _varint(1) + _varint(dialect << 1 | 1) + version + _varint(len(t.names))
    dialects += _varint(0) + _varint(len(t.names)) + names
    entries = [*t.attributes, *t.types]
    offsets = _varint(len(t.attributes)) + _varint(len(t.types))
    for group in (t.attributes, t.types):
        offsets += _varint(0) + _varint(len(group)) + b"".join(_varint(len(one) << 1 | 1) for one in group)
    encoded = [one.encode() + b"\0" for one in t.strings]
    strings = _varint(len(encoded)) + b"".join(_varint(len(one)) for one in reversed(encoded))
    sections = {
        0: strings + b"".join(encoded),
        1: dialects,
        2: b"".join(entries),
        3: offsets,
        4: ir_section,
        8: _varint(len(t.properties)) + b"".join(_varint(len(one)) + one for one in t.properties),
    }
    if t.resources:
        keys = [_varint(t.strings[f"resource_{index + 1}"]) for index in range(len(t.resources))]
        blobs = [_varint(1) + _varint(len(blob)) + blob for blob in t.resources]
        listed = zip(keys, blobs, strict=True)
        infos = b"".join(key + _varint(len(blob)) + b"\0" for key, blob in listed)
        sections[5] = b"".join(blobs)
        sections[6] = _varint(0) + _varint(0) + _varint(len(blobs)) + infos
    body = b"".join(bytes([number]) + _varint(len(data)) + data for number, data in sections.items())
    return b"ML\xefR" + _varint(6) + b"tests\0" + body


def write_bundle(path: Path, graphs: Sequence[Graph], *, is_numbered: bool = False) -> Path:
    """Writes a bundle, and returns its path; see `write_program`."""
    path.mkdir()
    program = write_program(graphs, is_numbered=is_numbered)
    (path / "main.mlirb").write_bytes(program)
    (path / "main.hash").write_bytes(hashlib.sha256(program).digest())
    (path / "metadata.json").write_text(json.dumps({"assetVersion": "2.0", "producer": "tests"}))
    return path


def write_numbered(path: Path) -> Path:
    """Writes a bundle of a constant 0, a relu 1 and an addition 2, with a state, and returns its path."""
    inputs = {"s": handle("fp32", 4), "x": tensor("fp32", 1, 4)}
    return write_bundle(path, [Graph("main", inputs, _numbered)], is_numbered=True)


def _numbered(b: Body, state: Val, x: Val) -> Sequence[Val]:
    del state
    one = b.constant([1.0] * 4)
    y = b.op("relu", [x], [x.type])
    return [b.op("broadcasting_add", [y, one], [x.type])]
