"""Reading of programs that coreai-core has written in MLIR's own encoding.

(Source: `mlir/lib/IR/BuiltinDialectBytecode.cpp` and `BuiltinDialectBytecode.td` of LLVM.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coremlscope.formats.aimodel.bytecode import Bytecode, Operation, read_bytecode
from coremlscope.formats.aimodel.content import Content, read_graphs
from coremlscope.formats.aimodel.cursor import Cursor, damaged
from coremlscope.formats.aimodel.dialect import (
    Attribute,
    Dense,
    EnumMember,
    Flags,
    OtherType,
    ResourceName,
    Type,
    Unknown,
)
from coremlscope.formats.aimodel.encoding import OperationOrigin
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir

#: The files that the child process writes, and the key of an attribute that is known by its text only.
PROGRAM, OPERATIONS, TEXT = "program.mlirb", "operations.json", "#"

#: Encodings of types and attributes of MLIR's own dialect, by the number with which they begin.
_INTEGER, _BFLOAT, _COMPLEX, _TENSOR = 0, 3, 9, 13
_FLOATS = {_BFLOAT: ir.DType.BF16, 4: ir.DType.FP16, 5: ir.DType.FP32, 6: ir.DType.FP64}
_RESOURCE, _DENSE = 16, 18
_DYNAMIC = -(1 << 63)
_MOST_RANK = 32
#: Integers by their width and sign, as the type tells it: 0 for none, 1 for signed, 2 for unsigned.
_SIGNED = {4: ir.DType.INT4, 8: ir.DType.INT8, 16: ir.DType.INT16, 32: ir.DType.INT32, 64: ir.DType.INT64}
_UNSIGNED = {
    1: ir.DType.UINT1,
    2: ir.DType.UINT2,
    3: ir.DType.UINT3,
    4: ir.DType.UINT4,
    6: ir.DType.UINT6,
    8: ir.DType.UINT8,
    16: ir.DType.UINT16,
    32: ir.DType.UINT32,
    64: ir.DType.UINT64,
}
#: Types that are text in this encoding.
_NAMED = {"f8E4M3FN": ir.DType.FP8_E4M3, "f8E5M2": ir.DType.FP8_E5M2}
#: The members of enumerations, by the number that the file of a bundle has for each.
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "padding_mode": ("circular", "constant", "reflect", "replicate", "symmetric"),
    "approximate": ("none", "tanh", "sigmoid"),
    "interpolation_mode": ("linear", "nearest_neighbor"),
    "scatter_mode": ("update", "add", "sub", "mul", "div", "max", "min"),
}
_HANDLE = re.compile(r"!coreai\.handle<tensor<((?:(?:\d+|\?)x)*)(\w+)>>")
_ENUMERATION = re.compile(r"#coreai\.(\w+)<(\w+)>")
_SYMBOL = re.compile(r'#param\.constant<@"?([^">]+)"?>')


def read_rewritten(folder: Path) -> tuple[Content, str]:
    """Reads what the child process wrote.

    Returns:
        The program, which keeps its file mapped, and the version of coreai-core.

    Raises:
        CorruptModelError: The files do not belong together.
    """
    file = folder / PROGRAM
    storage = WeightStorage(PROGRAM, opener=lambda: file.open("rb"), size=file.stat().st_size)
    listed = json.loads((folder / OPERATIONS).read_text(encoding="utf-8"))
    bytecode = read_bytecode(storage.read(0, storage.size or 0, "the program"))
    return read_graphs(_MlirEncoding(bytecode, listed["ops"]), storage), str(listed["version"])


class _MlirEncoding:
    """Decodes MLIR's own types and elements, with the attributes that coreai-core listed; see `Encoding`."""

    program = "builtin.module"
    prefix = "coreai"

    def __init__(self, bytecode: Bytecode, listed: list[dict[str, Any]]) -> None:
        self.bytecode = bytecode
        self.unknown: dict[str, int] = {}
        ops = list(_walk(bytecode.operations))
        if [op.name for op in ops] != [about["name"] for about in listed]:
            raise damaged("coreai-core described other operations than it wrote")
        self._listed = dict(zip(map(id, ops), listed, strict=True))
        self._types: dict[int, Type] = {}

    def type(self, index: int) -> Type:
        """Returns a type; see `Encoding.type`."""
        if index not in self._types:
            self._types[index] = self._read_type(index)
        return self._types[index]

    def _read_type(self, index: int, *, is_element: bool = False) -> Type:
        if index >= len(self.bytecode.types):
            raise damaged(f"there is no type {index}, only {len(self.bytecode.types)}")
        entry = self.bytecode.types[index]
        if not entry.is_custom:
            raw = bytes(self.bytecode.data[entry.start : entry.end])
            return _named_type(raw.rstrip(b"\0").decode("utf-8", "replace"))
        cursor = Cursor(self.bytecode.data, entry.start, entry.end)
        number = cursor.varint()
        if number == _INTEGER:
            return _integer(cursor.varint())
        if number in _FLOATS:
            return ir.TensorType(_FLOATS[number], ())
        if number != _TENSOR or is_element:
            return OtherType("complex" if number == _COMPLEX else f"type {number}")
        rank = cursor.count("dimensions", _MOST_RANK)
        dims = [cursor.signed() for _ in range(rank)]
        element = self._read_type(cursor.varint(), is_element=True)
        if not isinstance(element, ir.TensorType) or element.shape != ():
            return element if isinstance(element, OtherType) else OtherType("nested tensor")
        return ir.TensorType(element.dtype, tuple(None if size == _DYNAMIC else size for size in dims))

    def attributes(self, name: str, op: Operation) -> Mapping[str, Attribute]:
        """Returns the attributes of an operation; see `Encoding.attributes`."""
        if name == "constant":
            return {"value": self._elements(op)}
        listed = self._listed[id(op)].get("attributes", {})
        found = {key: _attribute(value) for key, value in listed.items()}
        for key in ("arg_attrs", "res_attrs"):
            given = found.get(key)
            if isinstance(given, tuple):
                found[key] = tuple((one,) for one in given)
        if isinstance(found.get("scan_op"), int):
            found["scan_op"] = EnumMember(found["scan_op"])  # type: ignore[arg-type]
        return found

    def _elements(self, op: Operation) -> Attribute:
        """Returns where the elements of a constant are."""
        if op.properties is None:
            return Unknown(-1)
        part = self.bytecode.properties[op.properties]
        index = Cursor(part.data, part.at, part.end).varint()
        if index >= len(self.bytecode.attributes):
            raise damaged(f"there is no attribute {index}, only {len(self.bytecode.attributes)}")
        entry = self.bytecode.attributes[index]
        cursor = Cursor(self.bytecode.data, entry.start, entry.end)
        number = cursor.varint() if entry.is_custom else -1
        if number not in (_RESOURCE, _DENSE):
            return Unknown(number)
        type_ = self.type(cursor.varint())
        if number == _RESOURCE:
            names = self.bytecode.resource_names
            return ResourceName(names[cursor.index(len(names), "resource")])
        size = cursor.varint()
        start = cursor.at
        cursor.take(size)
        elements = type_.elements if isinstance(type_, ir.TensorType) else None
        if isinstance(type_, ir.TensorType) and type_.dtype is ir.DType.BOOL:
            return Flags(start, size)
        return Dense(start, size, is_splat=elements is not None and size < elements * 8)

    def origin(self, op: Operation) -> OperationOrigin:
        """Returns where an operation comes from; see `Encoding.origin`."""
        listed = self._listed[id(op)]
        return OperationOrigin(
            nodes=tuple(listed["nodes"]), modules=tuple(listed["modules"]), id=listed["id"]
        )


def _walk(ops: list[Operation]) -> Iterator[Operation]:
    for op in ops:
        yield op
        for region in op.regions:
            for block in region.blocks:
                yield from _walk(block.operations)


def _integer(encoded: int) -> Type:
    width, sign = encoded >> 2, encoded & 3
    if (width, sign) == (1, 0):
        return ir.TensorType(ir.DType.BOOL, ())
    dtype = (_UNSIGNED if sign == 2 else _SIGNED).get(width)
    return OtherType(f"integer of {width} bits") if dtype is None else ir.TensorType(dtype, ())


def _named_type(text: str) -> Type:
    if text in _NAMED:
        return ir.TensorType(_NAMED[text], ())
    handle = _HANDLE.fullmatch(text)
    dtype = _element(handle[2]) if handle is not None else None
    if handle is None or dtype is None:
        return OtherType(text.removeprefix("!coreai."))
    dims = tuple(None if size == "?" else int(size) for size in handle[1].split("x")[:-1])
    return ir.StateType(ir.TensorType(dtype, dims))


def _element(name: str) -> ir.DType | None:
    """Returns an element type by its name in MLIR: `f16`, `si8`, `i1`."""
    known = {"i1": ir.DType.BOOL, "bf16": _FLOATS[_BFLOAT], **_NAMED}
    known.update(
        {f"f{bits}": dtype for bits, dtype in ((16, _FLOATS[4]), (32, _FLOATS[5]), (64, _FLOATS[6]))}
    )
    known.update({f"si{width}": dtype for width, dtype in _SIGNED.items()})
    known.update({f"ui{width}": dtype for width, dtype in _UNSIGNED.items()})
    return known.get(name)


def _attribute(value: Any) -> Attribute:
    match value:
        case dict() if set(value) == {TEXT}:
            return _textual(str(value[TEXT]))
        case dict():
            return {key: _attribute(inner) for key, inner in value.items()}
        case list():
            return tuple(map(_attribute, value))
        case bool() | int() | float() | str():
            return value
    return Unknown(-1)


def _textual(text: str) -> Attribute:
    """Returns an attribute that is known by its text."""
    symbol = _SYMBOL.match(text)
    if symbol is not None:
        return symbol[1]
    member = _ENUMERATION.fullmatch(text)
    if member is not None and member[2] in _CHOICES.get(member[1], ()):
        return EnumMember(_CHOICES[member[1]].index(member[2]))
    return Unknown(-1)
