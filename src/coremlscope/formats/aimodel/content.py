"""The program of a Core AI model: graphs of operations with names, types, attributes and constants.

This is the program as the file has it, in the terms of coreai-core, before any translation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.units import shown
from coremlscope.formats.aimodel.bytecode import EncodedBlock, EncodedValue, Resource, read_bytecode
from coremlscope.formats.aimodel.bytecode import Operation as Encoded
from coremlscope.formats.aimodel.cursor import damaged
from coremlscope.formats.aimodel.dialect import Attribute, Dense, Flags, OtherType, ResourceName, Type
from coremlscope.formats.aimodel.encoding import Encoding, OperationOrigin, OwnEncoding
from coremlscope.formats.packing import unpack
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir

__all__ = [
    "Content",
    "EncodedValue",
    "GraphContent",
    "GraphFeature",
    "OperationOrigin",
    "StoredData",
    "StoredOp",
    "read_content",
    "read_graphs",
]


class StoredData(msgspec.Struct, frozen=True, kw_only=True):
    """The elements of a constant, in the file.

    Attributes:
        storage: The file with the program.
        offset: The offset of the first byte.
        size: The number of bytes.
        type: The type of the constant.
        is_packed: True if elements of less than 8 bits share bytes.
    """

    storage: WeightStorage
    offset: int
    size: int
    type: ir.TensorType
    is_packed: bool

    @property
    def stored_bytes(self) -> int:
        """Size of the elements in the file in bytes."""
        return self.size

    @property
    def is_available(self) -> bool:
        """False if the file is missing."""
        return self.storage.is_available

    def packed(self) -> memoryview:
        """Returns the bytes in the file."""
        return self.storage.read(self.offset, self.size, "a constant")

    def numpy(self) -> ir.Array:
        """Returns the elements. If NumPy has the type, they are a view of the mapped file.

        Raises:
            CorruptModelError: The number of bytes does not match the type.
        """
        try:
            if self.is_packed or self.type.dtype.bits >= 8:
                return unpack(self.packed(), self.type)
            array = np.frombuffer(self.packed(), self.type.dtype.numpy).reshape(self._shape())
        except ValueError:
            raise damaged(f"a constant of {ir.describe_type(self.type)} has {self.size} bytes") from None
        return _signed(array, self.type.dtype)

    def _shape(self) -> tuple[int, ...]:
        return tuple(size or 0 for size in self.type.shape or ())


def _signed(array: ir.Array, dtype: ir.DType) -> ir.Array:
    """Extends the sign of elements of less than 8 bits, each of which has a byte."""
    if dtype.numpy.kind != "i":
        return array
    shift = 8 - dtype.bits
    return np.asarray(array.view(np.int8) << shift >> shift)


@dataclass(slots=True, eq=False, kw_only=True)
class StoredOp:
    """An operation.

    Attributes:
        name: Its name in coreai-core, without dialect and version: `conv2d`, `broadcasting_add`.
        version: The version in the file.
        operands: Its arguments.
        results: Its results.
        attributes: Its attributes by name.
        blocks: The first block of each of its regions: the parts of control flow, or a decomposition into
            simpler operations.
        encoded: The operation in the file.
    """

    name: str
    version: int
    operands: tuple[EncodedValue, ...]
    results: tuple[EncodedValue, ...]
    attributes: Mapping[str, Attribute]
    blocks: tuple[BlockContent, ...] = ()
    encoded: Encoded


@dataclass(slots=True, eq=False)
class BlockContent:
    """The arguments and operations of a block."""

    arguments: tuple[EncodedValue, ...]
    ops: tuple[StoredOp, ...]


class GraphFeature(msgspec.Struct, frozen=True, kw_only=True):
    """An input or result of a graph: its name, its type, and the state that it is ("" for none)."""

    name: str
    type: Type
    state: str = ""


@dataclass(slots=True, eq=False, kw_only=True)
class GraphContent:
    """A graph.

    Attributes:
        name: Its name.
        is_private: True if only other graphs call it.
        composite: The operation that it stands for (`layer_norm`); empty if none.
        composite_attributes: The attributes of that operation.
        composite_inputs: The names of that operation's arguments.
        inputs: Its inputs; states come first.
        outputs: The results that have a name.
        body: Its operations, the last of which is `output`.
    """

    name: str
    is_private: bool
    composite: str
    composite_attributes: Mapping[str, Attribute]
    composite_inputs: tuple[str, ...]
    inputs: tuple[GraphFeature, ...]
    outputs: tuple[GraphFeature, ...]
    body: BlockContent


@dataclass(slots=True, eq=False)
class Content:
    """The program of a model.

    Attributes:
        graphs: Its graphs by name, in the file's order.
        encoding: Decodes types and attributes.
        storage: The file with the program.
    """

    graphs: Mapping[str, GraphContent]
    encoding: Encoding
    storage: WeightStorage

    @property
    def unknown(self) -> Mapping[str, int]:
        """How often each encoding that is not known is used."""
        return self.encoding.unknown

    def type(self, value: EncodedValue) -> Type:
        """Returns the type of a value."""
        return self.encoding.type(value.type)

    def constant(self, op: StoredOp) -> ir.Constant:
        """Returns the value of a `constant` operation.

        Raises:
            UnsupportedModelError: Its type or encoding is not supported.
            CorruptModelError: It is damaged.
        """
        type_, value = self.type(op.results[0]), op.attributes.get("value")
        if not isinstance(type_, ir.TensorType) or type_.elements is None:
            name = type_.name if isinstance(type_, OtherType) else "unknown shape"
            raise UnsupportedModelError(f"a constant of type {name} is not supported")
        if isinstance(value, ResourceName):
            blob = self.encoding.bytecode.resources.get(value.name)
            if blob is None:
                raise damaged(f"the resource {value.name} is missing")
            data = _stored(self.storage, blob, type_, is_packed=True)
            if blob.size != type_.nbytes:
                raise damaged(f"a constant of {ir.describe_type(type_)} has {blob.size} bytes")
            return ir.Constant(type_, data)
        if isinstance(value, Dense):
            return ir.Constant(type_, self._dense(value, type_))
        if isinstance(value, Flags):
            return ir.Constant(type_, ir.Immediate(self._flags(value, type_)))
        raise UnsupportedModelError(f"a constant is encoded as {value!r}, which is not supported")

    def _dense(self, value: Dense, type_: ir.TensorType) -> ir.DataSource:
        """Returns the elements in the table of attributes: one byte each if they have 2 to 8 bits."""
        is_packed = type_.dtype.bits == 1
        elements = type_.elements or 0
        wanted = -(-elements // 8) if is_packed else elements * max(8, type_.dtype.bits) // 8
        data = _stored(self.storage, value, type_, is_packed=is_packed)
        if value.size == wanted:
            return data
        single = ir.TensorType(type_.dtype, ())
        if not value.is_splat or value.size != max(8, type_.dtype.bits) // 8:
            raise damaged(f"a constant of {ir.describe_type(type_)} has {value.size} bytes")
        one = _stored(self.storage, value, single, is_packed=is_packed).numpy()
        shape = tuple(size or 0 for size in type_.shape or ())
        return ir.Immediate(np.broadcast_to(one, shape))

    def _flags(self, value: Flags, type_: ir.TensorType) -> ir.Array:
        raw = np.frombuffer(self.storage.read(value.offset, value.size, "a constant"), np.uint8)
        elements, shape = type_.elements or 0, tuple(size or 0 for size in type_.shape or ())
        if value.size == 1:
            raw = np.repeat(raw, max(1, -(-elements // 8)))
        bits = np.unpackbits(raw, bitorder="little")[:elements]
        if bits.size != elements:
            raise damaged(f"a constant of {ir.describe_type(type_)} has {value.size} bytes")
        return bits.astype(np.bool_).reshape(shape)

    def origin(self, op: StoredOp) -> OperationOrigin:
        """Returns where an operation comes from."""
        return self.encoding.origin(op.encoded)


def _stored(
    storage: WeightStorage, place: Dense | Resource, type_: ir.TensorType, *, is_packed: bool
) -> StoredData:
    return StoredData(storage=storage, offset=place.offset, size=place.size, type=type_, is_packed=is_packed)


def read_content(storage: WeightStorage) -> Content:
    """Reads the program in a file. Constants stay in the file, which is mapped.

    Raises:
        NotAModelError: It is not MLIR bytecode.
        UnsupportedModelError: Its version cannot be read.
        CorruptModelError: It is damaged.
        MissingWeightsError: The file is missing.
    """
    encoding = OwnEncoding(read_bytecode(storage.read(0, storage.size or 0, "the program")))
    encoding.count_unknown_types()
    return read_graphs(encoding, storage)


def read_graphs(encoding: Encoding, storage: WeightStorage) -> Content:
    """Reads the graphs of a program.

    Raises:
        UnsupportedModelError: It is not a Core AI program.
        CorruptModelError: It is damaged.
    """
    bytecode = encoding.bytecode
    top = bytecode.operations[0] if len(bytecode.operations) == 1 else None
    if top is None or top.name != encoding.program:
        found = shown(", ".join(bytecode.dialects))
        raise UnsupportedModelError(
            f"the program is in the dialect {found}, not a Core AI program",
            "convert the model with coreai-torch, and use the .aimodel bundle",
        )
    reader = _Reader(encoding)
    graphs = {}
    for op in _block(top).operations:
        graph = reader.graph(op)
        graphs[graph.name] = graph
    if not graphs:
        raise damaged("it has no graphs")
    return Content(graphs, encoding, storage)


def _block(op: Encoded) -> EncodedBlock:
    """Returns the only block of an operation's only region."""
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        raise damaged(f"{shown(op.name)} does not have one region of one block")
    return op.regions[0].blocks[0]


class _Reader:
    """Reads graphs.

    Args:
        encoding: Decodes attributes and types.
    """

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding

    def graph(self, encoded: Encoded) -> GraphContent:
        """Reads a graph."""
        op = self._operation(encoded)
        name = op.attributes.get("sym_name")
        if op.name != "graph" or not isinstance(name, str) or len(op.blocks) != 1:
            raise damaged(f"{shown(encoded.name)} is in place of a graph")
        body = op.blocks[0]
        composite, attributes, arguments = _composite(op.attributes.get("composite_decl"))
        names, states = self._named(op.attributes.get("arg_attrs"))
        result_names, _ = self._named(op.attributes.get("res_attrs"))
        inputs = []
        for index, value in enumerate(body.arguments):
            type_ = self._encoding.type(value.type)
            label = names.get(index) or f"input_{index}"
            state = states.get(index, "") or (label if isinstance(type_, ir.StateType) else "")
            inputs.append(GraphFeature(name=label, type=type_, state=state))
        results = body.ops[-1].operands if body.ops and body.ops[-1].name == "output" else ()
        outputs = tuple(
            GraphFeature(
                name=result_names.get(index) or f"output_{index}", type=self._encoding.type(value.type)
            )
            for index, value in enumerate(results)
        )
        return GraphContent(
            name=name,
            is_private=op.attributes.get("priv") is True,
            composite=composite,
            composite_attributes=attributes,
            composite_inputs=arguments,
            inputs=tuple(inputs),
            outputs=outputs,
            body=body,
        )

    def _named(self, attributes: Attribute | None) -> tuple[dict[int, str], dict[int, str]]:
        """Returns the names of inputs or results by number, and the names of the states among them."""
        names, states = {}, {}
        for index, given in enumerate(attributes if isinstance(attributes, tuple) else ()):
            entries = given if isinstance(given, tuple) else ()
            for entry in entries:
                for key, value in (entry if isinstance(entry, dict) else {}).items():
                    if isinstance(value, str) and key == f"{self._encoding.prefix}.name":
                        names[index] = value
                    elif isinstance(value, str) and key == "MutableBuffers.buffer_mutation":
                        states[index] = value
        return names, states

    def _operation(self, encoded: Encoded) -> StoredOp:
        name, version = _split(encoded.name)
        return StoredOp(
            name=name,
            version=version,
            operands=encoded.operands,
            results=encoded.results,
            attributes=self._encoding.attributes(name, encoded),
            blocks=tuple(self._content(region.blocks[0]) for region in encoded.regions if region.blocks),
            encoded=encoded,
        )

    def _content(self, block: EncodedBlock) -> BlockContent:
        return BlockContent(block.arguments, tuple(map(self._operation, block.operations)))


def _composite(value: Attribute | None) -> tuple[str, Mapping[str, Attribute], tuple[str, ...]]:
    """Returns the operation that a graph stands for, its attributes, and the names of its arguments."""
    if not isinstance(value, dict) or len(value) != 1:
        return "", {}, ()
    ((name, given),) = value.items()
    given = given if isinstance(given, dict) else {}
    attributes = given.get("op_attrs")
    return name, attributes if isinstance(attributes, dict) else {}, _names(given.get("input_names"))


def _names(value: Attribute | None) -> tuple[str, ...]:
    found = value if isinstance(value, tuple) else ()
    return tuple(name for name in found if isinstance(name, str))


def _split(name: str) -> tuple[str, int]:
    """Returns an operation's own name and version: `aicode.primitive.reshape_v2` is `reshape`, 2."""
    short, _, version = name.rpartition(".")[2].rpartition("_v")
    if short and version.isdecimal() and len(version) < 4:
        return short, int(version)
    return name.rpartition(".")[2], 0
