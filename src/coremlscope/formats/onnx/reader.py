"""Reading of `.onnx` files.

(Source: `onnx/onnx.proto` and `docs/ExternalData.md` of ONNX.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import numpy as np

from coremlscope.base.budget import Budget
from coremlscope.base.errors import CorruptModelError, NotAModelError, UnsupportedModelError
from coremlscope.base.units import shown
from coremlscope.formats.onnx.graph import OWN_DOMAINS, Graph, Node, OnnxModel, Signature, sort_nodes
from coremlscope.formats.onnx.schema import DTYPES, Message, message_class
from coremlscope.formats.packing import unpack
from coremlscope.formats.weights import WeightStorage
from coremlscope.model.ir import Array, Constant, DType, TensorType

#: A larger file is not a message of protobuf.
_LARGEST = 2**31 - 1
_DAMAGED = "the file is damaged or truncated; export or download it again"
_EXTERNAL = 1
_POINTER = b"version https://git-lfs."
_MOST_DEPTH = 30
#: The fields of `TensorProto` for elements that are not stored as bytes.
_FIELDS: Mapping[DType, str] = {
    DType.FP32: "float_data",
    DType.FP64: "double_data",
    DType.INT64: "int64_data",
    DType.UINT32: "uint64_data",
    DType.UINT64: "uint64_data",
    DType.STRING: "string_data",
}
#: `AttributeProto.AttributeType`: the field of each kind of value.
_ATTRIBUTES: Mapping[int, str] = {
    1: "f",
    2: "i",
    3: "s",
    4: "t",
    5: "g",
    6: "floats",
    7: "ints",
    8: "strings",
    9: "tensors",
    10: "graphs",
}


class StoredTensor(msgspec.Struct, frozen=True, eq=False):
    """The elements of a constant in the file."""

    message: Message
    dtype: DType
    shape: tuple[int, ...]

    @property
    def stored_bytes(self) -> int:
        """Size of the elements in bytes."""
        return int(self.message.ByteSize())

    @property
    def is_available(self) -> bool:
        """Always true."""
        return True

    def numpy(self) -> Array:
        """Returns the elements."""
        message, dtype = self.message, self.dtype
        if message.HasField("raw_data"):
            return unpack_bytes(message.raw_data, dtype, self.shape, message.name)
        values = getattr(message, _FIELDS.get(dtype, "int32_data"))
        if dtype is DType.STRING:
            array = np.array([one.decode("utf-8", "replace") for one in values], dtype=object)
        elif dtype is DType.FP16:
            array = np.array(values, np.uint16).view(np.float16)
        elif dtype is DType.BF16:
            array = (np.array(values, np.uint32) << 16).view(np.float32)
        elif dtype.bits < 8:
            return unpack_bytes(np.array(values, np.uint8).tobytes(), dtype, self.shape, message.name)
        else:
            array = np.array(values).astype(dtype.numpy)
        return _shaped(array, self.shape, message.name)


class ExternalTensor(msgspec.Struct, frozen=True, eq=False):
    """The elements of a constant in another file."""

    storage: WeightStorage
    offset: int
    size: int
    dtype: DType
    shape: tuple[int, ...]
    name: str

    @property
    def stored_bytes(self) -> int:
        """Size of the elements in bytes."""
        return self.size

    @property
    def is_available(self) -> bool:
        """False if the file is missing."""
        return self.storage.is_available

    def numpy(self) -> Array:
        """Returns the elements; see `WeightStorage.read` for errors."""
        data = self.storage.read(self.offset, self.size, self.name)
        return unpack_bytes(data, self.dtype, self.shape, self.name)


def unpack_bytes(data: bytes | memoryview, dtype: DType, shape: tuple[int, ...], name: str) -> Array:
    """Returns elements that are stored as little-endian bytes.

    Raises:
        CorruptModelError: There are more or fewer bytes than the shape takes.
    """
    count = int(np.prod(shape, dtype=np.int64))
    size = (count * dtype.bits + 7) // 8
    if len(data) != size:
        raise CorruptModelError(
            f"the constant {name!r} has {len(data)} bytes, not the {size} of its type",
            _DAMAGED,
        )
    return unpack(data, TensorType(dtype, shape))


def _shaped(array: Array, shape: tuple[int, ...], name: str) -> Array:
    if array.size != int(np.prod(shape, dtype=np.int64)):
        raise CorruptModelError(f"the constant {name!r} has {array.size} elements, not {shape}", _DAMAGED)
    return array.reshape(shape)


def read_message(path: Path) -> Message:
    """Returns the file's message.

    Raises:
        NotAModelError: The file is empty, or a pointer of Git LFS.
        CorruptModelError: It is damaged.
        UnsupportedModelError: It is too large for a message.
        OSError: The file cannot be read.
    """
    from google.protobuf.message import DecodeError

    size = path.stat().st_size
    if size > _LARGEST:
        raise UnsupportedModelError(
            f"{path} has more than 2 GB, which no message of protobuf has",
            "save its weights as external data",
        )
    data = path.read_bytes()
    if data.startswith(_POINTER):
        raise NotAModelError(f"{path} is a pointer of Git LFS, not the model", "run `git lfs pull`")
    try:
        message = message_class("ModelProto").FromString(data)
    except (DecodeError, RecursionError):
        raise CorruptModelError(f"{path} cannot be read as an ONNX model", _DAMAGED) from None
    if not message.HasField("graph") or not (message.graph.node or message.graph.output):
        raise CorruptModelError(f"{path} has no graph", _DAMAGED)
    return message


def read_onnx(path: Path) -> OnnxModel:
    """Reads an ONNX model. Missing files of external data are no error: the constants are not available.

    Raises:
        ModelError: The file is no ONNX model, is damaged or has a cycle; external data is truncated.
        OSError: The file cannot be read.
    """
    return model_of(read_message(path), path)


def model_of(message: Message, path: Path) -> OnnxModel:
    """Returns the model in a message. Errors are those of `read_onnx`."""
    reading = _Reading(path)
    Budget.of_model().check_operations(len(message.graph.node))
    try:
        graph = reading.graph(message.graph, 0)
    except (UnicodeDecodeError, OverflowError, ValueError, TypeError) as error:
        raise CorruptModelError(f"{path} is damaged: {error}", _DAMAGED) from None
    opsets = {"" if one.domain in OWN_DOMAINS else one.domain: one.version for one in message.opset_import}
    functions = frozenset((one.domain, one.name) for one in message.functions)
    sizes = [storage.size for storage in reading.files.values()]
    producer = " ".join(filter(None, (message.producer_name, message.producer_version)))
    return OnnxModel(
        path=path,
        graph=graph,
        ir_version=int(message.ir_version),
        opsets=opsets or {"": 1},
        functions=functions,
        producer=producer,
        metadata={one.key: one.value for one in message.metadata_props},
        size_bytes=path.stat().st_size + sum(size or 0 for size in sizes),
        absent=tuple(name for name, one in reading.files.items() if one.size is None),
    )


def read_types(values: Iterable[Message]) -> dict[str, TensorType]:
    """Returns the types of values that are tensors, by name."""
    signatures = map(_signature, values)
    return {one.name: one.type for one in signatures if one.type is not None}


class _Reading:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, WeightStorage] = {}

    def graph(self, message: Message, depth: int, outer: frozenset[str] = frozenset()) -> Graph:
        """Reads a graph.

        Args:
            message: The graph.
            depth: How many graphs it is in.
            outer: The names that the graphs around it define.
        """
        if depth > _MOST_DEPTH:
            raise CorruptModelError(f"{self.path} has graphs nested deeper than {_MOST_DEPTH}", _DAMAGED)
        constants: dict[str, Constant] = {}
        external, raw = set(), set()
        for tensor in message.initializer:
            constants[tensor.name] = self.constant(tensor)
            if tensor.data_location == _EXTERNAL:
                external.add(tensor.name)
            elif tensor.HasField("raw_data"):
                raw.add(tensor.name)
        inputs, outputs = (tuple(map(_signature, given)) for given in (message.input, message.output))
        types = {name: one.type for name, one in constants.items() if isinstance(one.type, TensorType)}
        for one in (*inputs, *map(_signature, message.value_info), *outputs):
            if one.type is not None:
                types.setdefault(one.name, one.type)
        names = outer | types.keys() | {one.name for one in inputs} | constants.keys()
        nodes = []
        for node in message.node:
            made = (
                frozenset(name for other in message.node for name in other.output) if _has_body(node) else ()
            )
            read = self.node(node, depth, names.union(made))
            value = _constant_value(read) if read.op == "Constant" and read.is_own else None
            if value is None:
                nodes.append(read)
                continue
            constants[read.outputs[0]] = value
            if isinstance(value.type, TensorType):
                types[read.outputs[0]] = value.type
        return Graph(
            name=message.name,
            inputs=inputs,
            outputs=outputs,
            nodes=self.sorted(nodes),
            constants=constants,
            types=types,
            external=frozenset(external),
            raw=frozenset(raw),
        )

    def node(self, message: Message, depth: int, names: frozenset[str]) -> Node:
        attributes = {}
        for one in message.attribute:
            attributes[one.name] = self.attribute(one, depth, names)
        return Node(
            op=message.op_type,
            domain=message.domain,
            name=message.name,
            inputs=tuple(message.input),
            outputs=tuple(message.output),
            attributes=attributes,
        )

    def attribute(self, message: Message, depth: int, names: frozenset[str]) -> object:
        """Returns the value of an attribute; None for types of which nothing is known."""
        kind = message.type or next(
            (number for number, name in _ATTRIBUTES.items() if number < 6 and message.HasField(name)), 0
        )
        name = _ATTRIBUTES.get(kind)
        if name is None:
            return None
        value: Any = getattr(message, name)
        match name:
            case "s":
                return value.decode("utf-8", "replace")
            case "strings":
                return tuple(one.decode("utf-8", "replace") for one in value)
            case "t":
                return self.constant(value)
            case "g":
                return self.graph(value, depth + 1, names)
            case "tensors" | "graphs":
                return None
            case "floats" | "ints":
                return tuple(value)
        return value

    def constant(self, message: Message) -> Constant:
        """Returns a constant whose elements are read when they are needed."""
        dtype = DTYPES.get(message.data_type)
        if dtype is None:
            raise UnsupportedModelError(
                f"the constant {message.name!r} of {self.path} has the element type {message.data_type}",
                "Core ML has no such type",
            )
        shape = tuple(message.dims)
        if any(size < 0 for size in shape):
            raise CorruptModelError(
                f"the constant {message.name!r} of {self.path} has the shape {shape}", _DAMAGED
            )
        type_ = TensorType(dtype, shape)
        if message.data_location != _EXTERNAL:
            return Constant(type_, StoredTensor(message, dtype, shape))
        where = {one.key: one.value for one in message.external_data}
        name = where.get("location", "")
        offset, size = int(where.get("offset") or 0), int(where.get("length") or type_.nbytes or 0)
        storage = self.files.setdefault(name, WeightStorage(name, self.locate(name)))
        known = storage.size
        if offset < 0 or size != type_.nbytes or (known is not None and offset + size > known):
            raise CorruptModelError(
                f"the constant {message.name!r} takes bytes {offset} to {offset + size} of"
                f" {shown(name)}, which has {known}",
                "the external data is truncated or belongs to another model; download it again",
            )
        return Constant(type_, ExternalTensor(storage, offset, size, dtype, shape, message.name))

    def locate(self, name: str) -> Path:
        """Returns the path of a file of external data, which must be next to the model or below it."""
        inside = PurePosixPath(name.replace("\\", "/"))
        if not name or inside.is_absolute() or ".." in inside.parts or ":" in name:
            raise CorruptModelError(
                f"{self.path} refers to external data outside its folder: {shown(name)}",
                "do not use it unless you trust its author",
            )
        return self.path.parent.joinpath(*inside.parts)

    def sorted(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Returns operators so that each is after those whose results it reads."""
        try:
            return sort_nodes(nodes)
        except ValueError as error:
            raise CorruptModelError(f"the graph of {self.path} is damaged: {error}", _DAMAGED) from None


def _has_body(message: Message) -> bool:
    return any(one.type == 5 for one in message.attribute)


def _signature(message: Message) -> Signature:
    if message.type.WhichOneof("value") != "tensor_type":
        return Signature(message.name, None)
    tensor = message.type.tensor_type
    dtype = DTYPES.get(tensor.elem_type)
    if dtype is None:
        return Signature(message.name, None)
    if not tensor.HasField("shape"):
        return Signature(message.name, TensorType(dtype, None))
    dims = tuple(
        int(one.dim_value) if one.HasField("dim_value") and one.dim_value >= 0 else one.dim_param or None
        for one in tensor.shape.dim
    )
    shape = tuple(one if isinstance(one, int) else None for one in dims)
    return Signature(message.name, TensorType(dtype, shape), dims)


def _constant_value(node: Node) -> Constant | None:
    """Returns the value of a `Constant` operator."""
    from coremlscope.model.ir import constant

    for name, dtype in (
        ("value_float", DType.FP32),
        ("value_floats", DType.FP32),
        ("value_int", DType.INT64),
        ("value_ints", DType.INT64),
    ):
        if name in node.attributes:
            return constant(np.array(node.attributes[name], dtype.numpy), dtype)
    value = node.attributes.get("value")
    return value if isinstance(value, Constant) else None
