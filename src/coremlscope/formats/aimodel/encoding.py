"""Encodings of attributes and types in the graphs of a program.

`OwnEncoding` reads that of bundles: properties of operations in a fixed order, and their locations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from coremlscope.formats.aimodel.bytecode import Bytecode, Operation
from coremlscope.formats.aimodel.cursor import Cursor
from coremlscope.formats.aimodel.dialect import Attribute, Decoder, Location, OtherType, Type, Unknown

DIALECT = "aicode"
#: The latest version of the dialect whose encodings are known.
KNOWN_VERSION = 2
#: The attributes of operations, in the order of their encoding. "?" marks those that may be absent.
_PROPERTIES: Mapping[str, tuple[str, ...]] = {
    "graph": (
        "arg_attrs",
        "composite_decl?",
        "externalize",
        "function_type",
        "no_inline",
        "sym_name",
        "priv",
        "param_decls",
        "res_attrs",
    ),
    "constant": ("value",),
    "invoke": ("arg_attrs", "callee", "res_attrs"),
    "pad": ("padding_mode",),
    "gelu": ("approximate",),
    "interpolate": ("interpolation_mode",),
    "interpolate_coordinates": ("interpolation_mode",),
    "scan": ("scan_op",),
    "scatter_along_axis": ("scatter_mode",),
}
#: The longest call stack that is read.
_MOST_FRAMES = 64


class OperationOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where an operation comes from, as far as the file tells.

    Attributes:
        nodes: Names of the nodes of the PyTorch program: `convolution_2`.
        modules: The path of modules, outermost first: `TinyConv$1`, `Sequential$1`, `Linear$1`.
        id: The number that coreai-core gave to the operation; None if there is none.
    """

    nodes: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    id: int | None = None


class Encoding(Protocol):
    """Decodes the types, attributes and locations of a program.

    Attributes:
        bytecode: The content of the file.
        program: The name of the only operation at the top level.
        prefix: Begins the names of attributes of inputs and outputs.
        unknown: How often each encoding that is not known is used.
    """

    bytecode: Bytecode
    program: str
    prefix: str
    unknown: dict[str, int]

    def type(self, index: int) -> Type:
        """Returns a type by its index.

        Raises:
            CorruptModelError: It is damaged.
        """

    def attributes(self, name: str, op: Operation) -> Mapping[str, Attribute]:
        """Returns the attributes of an operation by name.

        Args:
            name: The name of the operation in coreai-core, without dialect and version.
            op: The operation in the file.

        Raises:
            CorruptModelError: They are damaged.
        """

    def origin(self, op: Operation) -> OperationOrigin:
        """Returns where an operation comes from."""


class OwnEncoding:
    """Decodes what `aicode` encodes; see `Encoding`.

    Args:
        bytecode: The content of a file.
    """

    program = f"{DIALECT}.serialization.asset"
    prefix = DIALECT

    def __init__(self, bytecode: Bytecode) -> None:
        self.bytecode = bytecode
        self.unknown: dict[str, int] = {}
        self._decoder = Decoder(bytecode)

    def count_unknown_types(self) -> None:
        """Counts the types of the file whose encodings are not known."""
        for index in range(len(self.bytecode.types)):
            type_ = self._decoder.type(index)
            if isinstance(type_, OtherType) and type_.is_unknown:
                self._count(type_.name)

    def type(self, index: int) -> Type:
        """Returns a type; see `Encoding.type`."""
        return self._decoder.type(index)

    def attributes(self, name: str, op: Operation) -> Mapping[str, Attribute]:
        """Returns the attributes of an operation; see `Encoding.attributes`."""
        if op.properties is None:
            return {}
        part = self.bytecode.properties[op.properties]
        cursor = Cursor(part.data, part.at, part.end)
        found: dict[str, Attribute] = {}
        for key in _PROPERTIES.get(name, ()):
            index = cursor.varint()
            if key.endswith("?"):
                index, is_given = index >> 1, index & 1
                if not is_given:
                    continue
            found[key.removesuffix("?")] = self._attribute(index)
        if cursor.left and name not in _PROPERTIES:
            found["encoded"] = Unknown(-1)
            self._count(f"attributes of {name}")
        return found

    def _attribute(self, index: int) -> Attribute:
        value = self._decoder.attribute(index)
        if isinstance(value, Unknown):
            self._count(f"attribute {value.number}")
        return value

    def _count(self, encoding: str) -> None:
        self.unknown[encoding] = self.unknown.get(encoding, 0) + 1

    def origin(self, op: Operation) -> OperationOrigin:
        """Returns where an operation comes from; see `Encoding.origin`."""
        location = self._decoder.attribute(op.location)
        if not isinstance(location, Location):
            return OperationOrigin()
        metadata = location.metadata
        return OperationOrigin(
            nodes=tuple(_nodes(metadata.get("sources"))),
            modules=tuple(reversed(_texts(metadata.get("call_stack")))),
            id=_number(metadata.get("op_id")),
        )


def _texts(value: Attribute | None) -> tuple[str, ...]:
    found = value if isinstance(value, tuple) else ()
    return tuple(text for text in found[:_MOST_FRAMES] if isinstance(text, str))


def _nodes(value: Attribute | None) -> Iterator[str]:
    for source in value[:_MOST_FRAMES] if isinstance(value, tuple) else ():
        if isinstance(source, dict) and source.get("name") == "torch":
            yield from _texts(source.get("identifiers"))


def _number(value: Attribute | None) -> int | None:
    number = value.get("value") if isinstance(value, dict) and value.get("type") == "coreai" else None
    return number if isinstance(number, int) else None
