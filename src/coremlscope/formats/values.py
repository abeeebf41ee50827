"""Conversion of a program's types and values: the messages of `MIL.proto` from and to `ir`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from coremlscope.base.errors import CorruptModelError
from coremlscope.formats.packing import pack, unpack
from coremlscope.model import ir, schema
from coremlscope.model.schema import Message

#: Element types by their number in `MIL.proto`.
_DTYPES = {
    1: ir.DType.BOOL,
    2: ir.DType.STRING,
    10: ir.DType.FP16,
    11: ir.DType.FP32,
    12: ir.DType.FP64,
    13: ir.DType.BF16,
    21: ir.DType.INT8,
    22: ir.DType.INT16,
    23: ir.DType.INT32,
    24: ir.DType.INT64,
    25: ir.DType.INT4,
    31: ir.DType.UINT8,
    32: ir.DType.UINT16,
    33: ir.DType.UINT32,
    34: ir.DType.UINT64,
    35: ir.DType.UINT4,
    36: ir.DType.UINT2,
    37: ir.DType.UINT1,
    38: ir.DType.UINT6,
    39: ir.DType.UINT3,
    40: ir.DType.FP8_E4M3,
    41: ir.DType.FP8_E5M2,
}
_DTYPE_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}
_MAX_DIMENSION = 2**63 - 1
_MAX_RANK = 32  # the limit of NumPy 1; Core ML allows 5
_DAMAGED = "the file is damaged or malicious; export or download the model again"

#: The fields with inline elements: their NumPy type, and the element types stored in them. All other element
#: types are stored in the field `bytes`, as by coremltools.
_INLINE_FIELDS: dict[str, tuple[type, tuple[ir.DType, ...]]] = {
    "bools": (np.bool_, (ir.DType.BOOL,)),
    "strings": (object, (ir.DType.STRING,)),
    "floats": (np.float32, (ir.DType.FP32,)),
    "doubles": (np.float64, (ir.DType.FP64,)),
    "ints": (np.int32, (ir.DType.INT16, ir.DType.UINT16, ir.DType.INT32)),
    "longInts": (np.int64, (ir.DType.INT64, ir.DType.UINT64)),
}
_FIELDS = {dtype: field for field, (_, dtypes) in _INLINE_FIELDS.items() for dtype in dtypes}

#: NumPy reads fewer elements four times faster from a list, and more from protobuf's own memory.
_FEW = 64

#: Creates lazy data from a reference to a weight file (name, offset, type).
BlobOpener = Callable[[str, int, ir.TensorType], ir.DataSource]


def read_type(message: Message) -> ir.ValueType:
    """Reads a `ValueType` message.

    Raises:
        CorruptModelError: The message is inconsistent or has an unknown element type.
    """
    return _parse_type(message.SerializeToString())


@functools.lru_cache(maxsize=4096)
def _parse_type(data: bytes) -> ir.ValueType:
    """Reads the bytes of a `ValueType`. A program has thousands of equal types, which become one object."""
    message = schema.message_class("MILSpec.ValueType").FromString(data)
    match message.WhichOneof("type"):
        case "tensorType":
            return _read_tensor_type(message.tensorType)
        case "listType":
            return ir.ListType(read_type(message.listType.type), _read_dimension(message.listType.length))
        case "tupleType":
            return ir.TupleType(tuple(read_type(element) for element in message.tupleType.types))
        case "dictionaryType":
            dictionary = message.dictionaryType
            return ir.DictType(read_type(dictionary.keyType), read_type(dictionary.valueType))
        case "stateType":
            return ir.StateType(read_type(message.stateType.wrappedType))
        case _:
            raise CorruptModelError("a value of the program has no type", _DAMAGED)


def _read_tensor_type(message: Message) -> ir.TensorType:
    dtype = _DTYPES.get(message.dataType)
    if dtype is None:
        raise CorruptModelError(
            f"a tensor has an unknown element type (number {message.dataType})",
            "the file is damaged or was written for a newer Core ML; try a newer version of coremlscope",
        )
    dimensions = message.dimensions
    if message.rank < 0 or any(
        d.unknown.variadic for d in dimensions if d.WhichOneof("dimension") == "unknown"
    ):
        return ir.TensorType(dtype, None)
    if len(dimensions) > _MAX_RANK:
        raise CorruptModelError(f"a tensor has {len(dimensions)} dimensions", _DAMAGED)
    if message.rank != len(dimensions):
        raise CorruptModelError(f"a tensor of rank {message.rank} has {len(dimensions)} dimensions", _DAMAGED)
    return ir.TensorType(dtype, tuple(_read_dimension(dimension) for dimension in dimensions))


def _read_dimension(message: Message) -> int | None:
    if message.WhichOneof("dimension") != "constant":
        return None
    size = message.constant.size
    if size > _MAX_DIMENSION:
        raise CorruptModelError(f"a tensor has a dimension of {size} elements", _DAMAGED)
    return int(size)


def write_type(type_: ir.ValueType, message: Message) -> None:
    """Fills a `ValueType` message."""
    match type_:
        case ir.TensorType(dtype, shape):
            tensor = message.tensorType
            tensor.dataType = _DTYPE_NUMBERS[dtype]
            tensor.rank = -1 if shape is None else len(shape)
            for size in shape or ():
                _write_dimension(size, tensor.dimensions.add())
        case ir.ListType(element, length):
            write_type(element, message.listType.type)
            _write_dimension(length, message.listType.length)
        case ir.TupleType(elements):
            message.tupleType.SetInParent()
            for element in elements:
                write_type(element, message.tupleType.types.add())
        case ir.DictType(key, value):
            write_type(key, message.dictionaryType.keyType)
            write_type(value, message.dictionaryType.valueType)
        case ir.StateType(wrapped):
            write_type(wrapped, message.stateType.wrappedType)


def _write_dimension(size: int | None, message: Message) -> None:
    if size is None:
        message.unknown.variadic = False
        message.unknown.SetInParent()
    else:
        message.constant.size = size


def read_value(message: Message, open_blob: BlobOpener, expected: ir.ValueType | None = None) -> ir.Constant:
    """Reads the constant that a `Value` message contains or refers to.

    Args:
        message: The message.
        open_blob: Creates the data of a constant in a weight file.
        expected: The type, if the message may omit it (members of lists and dictionaries).

    Raises:
        CorruptModelError: The content does not match the type.
    """
    has_type = message.type.WhichOneof("type") is not None
    type_ = read_type(message.type) if has_type or expected is None else expected
    if message.WhichOneof("value") == "blobFileValue":
        if not isinstance(type_, ir.TensorType) or type_.dtype is ir.DType.STRING or not type_.is_static:
            raise CorruptModelError(f"a {ir.describe_type(type_)} cannot be in a weight file", _DAMAGED)
        blob = message.blobFileValue
        return ir.Constant(type_, open_blob(blob.fileName, blob.offset, type_))
    content = message.immediateValue
    kind = content.WhichOneof("value")
    match type_, kind:
        case ir.TensorType(), "tensor" | None:
            return ir.Constant(type_, ir.Immediate(_read_elements(content.tensor, type_)))
        case ir.ListType(element, length), "list" | None:
            if length not in (None, len(content.list.values)):
                raise _bad_constant(type_, f"has {len(content.list.values)} members")
            members = [read_value(member, open_blob, element) for member in content.list.values]
        case ir.TupleType(elements), "tuple" | None if len(content.tuple.values) == len(elements):
            pairs = zip(content.tuple.values, elements, strict=True)
            members = [read_value(member, open_blob, element) for member, element in pairs]
        case ir.DictType(key, value), "dictionary" | None:
            members = []
            for pair in content.dictionary.values:
                members += [read_value(pair.key, open_blob, key), read_value(pair.value, open_blob, value)]
        case _:
            raise _bad_constant(type_, f"has a {kind} value")
    return ir.Constant(type_, ir.Nested(tuple(members)))


def _read_elements(message: Message, type_: ir.TensorType) -> ir.Array:
    """Reads inline elements. Their number must be the declared one, so the message limits the allocation."""
    if not type_.is_static:
        raise _bad_constant(type_, "has no fixed shape")
    field = message.WhichOneof("value") or _FIELDS.get(type_.dtype, "bytes")
    if (field == "strings") != (type_.dtype is ir.DType.STRING):
        raise _bad_constant(type_, f"has elements of type {field}")
    values = getattr(message, field).values
    needed, unit = (type_.nbytes, "bytes") if field == "bytes" else (type_.elements, "elements")
    if len(values) != needed:
        raise _bad_constant(type_, f"has {len(values)} {unit} instead of {needed}")
    try:
        if field == "bytes":
            return unpack(values, type_)
        few = values[:] if len(values) < _FEW else values
        elements: ir.Array = np.array(few, _INLINE_FIELDS[field][0])
        return _convert(elements, type_.dtype).reshape(type_.shape)  # type: ignore[arg-type]
    except (ValueError, OverflowError) as error:
        raise _bad_constant(type_, f"cannot be read ({error})") from None


def _bad_constant(type_: ir.ValueType, why: str) -> CorruptModelError:
    return CorruptModelError(f"a constant {ir.describe_type(type_)} {why}", _DAMAGED)


def _convert(elements: ir.Array, dtype: ir.DType) -> ir.Array:
    """Converts inline elements to their type. Signed fields may contain the bits of unsigned types."""
    if dtype is ir.DType.UINT64 and elements.dtype == np.int64:
        return elements.view(np.uint64)
    if dtype is ir.DType.UINT32 and elements.dtype == np.int32:
        return elements.view(np.uint32)
    if elements.dtype == dtype.numpy:
        return elements
    with np.errstate(all="ignore"):
        converted = elements.astype(dtype.numpy, copy=False)
    if dtype.is_int and not np.array_equal(converted, elements):
        raise ValueError("an element is out of range")
    return converted


def write_immediate(constant: ir.Constant, message: Message) -> None:
    """Fills a `Value` message with a constant's type and its content inline."""
    write_type(constant.type, message.type)
    content = message.immediateValue
    members = constant.data.items if isinstance(constant.data, ir.Nested) else ()
    match constant.type:
        case ir.ListType():
            content.list.SetInParent()
            for member in members:
                write_immediate(member, content.list.values.add())
        case ir.TupleType():
            content.tuple.SetInParent()
            for member in members:
                write_immediate(member, content.tuple.values.add())
        case ir.DictType():
            content.dictionary.SetInParent()
            for key, value in zip(members[::2], members[1::2], strict=True):
                pair = content.dictionary.values.add()
                write_immediate(key, pair.key)
                write_immediate(value, pair.value)
        case ir.TensorType(dtype):
            _write_elements(constant.numpy(), dtype, content.tensor)
        case ir.StateType():
            raise TypeError("a state has no constant value")


def _write_elements(array: ir.Array, dtype: ir.DType, message: Message) -> None:
    field = _FIELDS.get(dtype, "bytes")
    target = getattr(message, field)
    target.SetInParent()
    if field == "bytes":
        target.values = pack(array, dtype)
        return
    if dtype is ir.DType.UINT64:
        array = array.view(np.int64)
    target.values.extend(array.reshape(-1).tolist())
