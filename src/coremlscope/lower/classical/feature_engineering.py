"""Models that prepare features for others, to ONNX."""

from __future__ import annotations

import numpy as np

from coremlscope.ir import DictType, DType, ListType, TensorType, Value
from coremlscope.ir.classical import (
    ArrayFeatureExtractor,
    CategoricalMapping,
    DictVectorizer,
    FeatureVectorizer,
    Identity,
    Imputer,
    Normalizer,
    OneHotEncoder,
    Scaler,
)
from coremlscope.lower.classical.interface import F64, Interface
from coremlscope.ops.emit import BOOL, I64, STRING, Tensor

__all__ = [
    "lower_array_feature_extractor",
    "lower_categorical_mapping",
    "lower_dict_vectorizer",
    "lower_feature_vectorizer",
    "lower_identity",
    "lower_imputer",
    "lower_normalizer",
    "lower_one_hot_encoder",
    "lower_scaler",
]


def _only_output(interface: Interface) -> Value:
    if len(interface.outputs) != 1:
        interface.contradict()
    return interface.outputs[0]


def lower_array_feature_extractor(content: ArrayFeatureExtractor, interface: Interface) -> None:
    """Lowers an `ArrayFeatureExtractor`."""
    op, name = interface.op, interface.only_input()
    indices, size = content.indices.numpy(), interface.size(name)
    if size is not None and indices.max() >= size:
        raise interface.error(f"extracts the element {indices.max()}, but its input holds {size}")
    flat = op.reshape(interface.tensor(name), (-1,))
    chosen = op.emit("Gather", flat, interface.weight(content.indices, "indices", I64), axis=0)
    interface.give(_only_output(interface), chosen, len(indices))


def lower_categorical_mapping(content: CategoricalMapping, interface: Interface) -> None:
    """Lowers a `CategoricalMapping`."""
    op, keys, mapped = interface.op, content.keys.numpy().tolist(), content.mapped.numpy().tolist()
    if content.default is not None:
        mapped.append(content.default)
    elif not mapped:
        raise interface.error("maps nothing, and has no default")
    place = interface.place(interface.only_input(), keys, is_closed=content.default is None)
    # What is unknown has the index -1: the last entry is the default.
    if content.keys.type == TensorType(DType.STRING, (len(keys),)):
        numbers = interface.emitter.array(np.array(mapped, np.int64))
        interface.give(_only_output(interface), op.emit("Gather", numbers, place, axis=0))
        return
    is_unknown = op.emit("Less", place, op.const(0, I64))
    place = op.emit("Where", is_unknown, op.const(len(mapped) - 1, I64), place, dtype=I64)
    interface.give_places(_only_output(interface), place, mapped)


def lower_dict_vectorizer(content: DictVectorizer, interface: Interface) -> None:
    """Lowers a `DictVectorizer`: the dictionary comes in laid out, or as indices if it is to be sparse."""
    keys, value = content.keys.numpy().tolist(), _only_output(interface)
    if isinstance(value.type, DictType):
        interface.give_pairs(value, *interface.pairs(interface.only_input(), keys))
    else:
        interface.give(value, interface.table(interface.only_input(), keys), len(keys))


def lower_feature_vectorizer(content: FeatureVectorizer, interface: Interface) -> None:
    """Lowers a `FeatureVectorizer`."""
    op = interface.op
    parts = [_column(name, size, interface) for name, size in content.columns]
    row = op.emit("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    interface.give(_only_output(interface), row, sum(size for _, size in content.columns))


def _column(name: str, size: int, interface: Interface) -> Tensor:
    """A feature as fp64 `[1, size]`; a dictionary holds the elements that are not 0, by their index."""
    op = interface.op
    if not interface.is_dictionary(name):
        return interface.row(size, [name])
    places, numbers = interface.pairs(name)
    if places.dtype == STRING:
        raise interface.error(f"takes no dictionary of strings as the input {name!r}")
    zeros = op.emit("Expand", op.const([0.0], F64), op.const([size], I64))
    spread = op.emit("ScatterElements", zeros, places, numbers, axis=0)
    return op.reshape(spread, (1, size))


def lower_identity(content: Identity, interface: Interface) -> None:
    """Lowers an `Identity`: outputs are inputs of the same name, or else in the same order."""
    if len(interface.inputs) != len(interface.outputs):
        interface.contradict()
    for name, value in zip(interface.inputs, interface.outputs, strict=True):
        source = value.name if value.name in interface.inputs else name
        type_ = interface.type(source)
        if isinstance(type_, DictType):
            interface.give_pairs(value, *interface.pairs(source))
        elif isinstance(type_, ListType) or type_ == TensorType(DType.STRING, ()):
            _pass_items(source, value, type_, interface)
        elif isinstance(type_, TensorType):
            interface.give_tensor(value, interface.tensor(source), type_)
        else:
            interface.contradict()


def _pass_items(source: str, value: Value, type_: TensorType | ListType, interface: Interface) -> None:
    element = type_.element if isinstance(type_, ListType) else type_
    if value.type != type_ or not isinstance(element, TensorType):
        interface.contradict()
    shape = (None,) if isinstance(type_, ListType) else (1,)
    if element.dtype is DType.STRING:
        interface.give_tensor(value, interface.text(source), TensorType(DType.STRING, shape))
    else:
        items = interface.numbers_of_sequence(source)
        interface.give_tensor(value, items, TensorType(DType.INT64, shape))


def lower_imputer(content: Imputer, interface: Interface) -> None:
    """Lowers an `Imputer`."""
    op, name, value = interface.op, interface.only_input(), _only_output(interface)
    type_ = interface.type(name)
    if content.keys is not None:
        _impute_dictionary(content, name, value, interface)
        return
    if type_ == TensorType(DType.STRING, ()):
        text = interface.text(name)
        known = content.replaced if isinstance(content.replaced, str) else ""
        is_missing = op.emit("Equal", text, op.const([known], STRING))
        result = op.emit(
            "Where", is_missing, op.const([str(content.imputed.item())], STRING), text, dtype=STRING
        )
        if value.type != type_:
            interface.contradict()
        interface.give_tensor(value, result, TensorType(DType.STRING, (1,)))
        return
    x = interface.tensor(name)
    imputed = content.imputed.numpy()
    if imputed.dtype == object:
        raise interface.error(f"has a string for the input {name!r}, which holds numbers")
    shape = type_.shape if isinstance(type_, TensorType) and type_.is_static else None
    size = interface.size(name)
    if imputed.size not in (1, size) and size is not None:
        raise interface.error(f"has {imputed.size} values for the input {name!r}, which holds {size}")
    if imputed.size > 1 and shape is not None:
        imputed = imputed.reshape([d or 0 for d in shape])
    missing = _is_missing(content, x, interface)
    if missing is not None:
        replacement = op.const(imputed.astype(x.dtype), x.dtype)
        x = op.emit("Where", missing, replacement, x, dtype=x.dtype)
    interface.give(value, x, size)


def _is_missing(content: Imputer, x: Tensor, interface: Interface) -> Tensor | None:
    """Which numbers are missing; None where none can be."""
    op = interface.op
    if content.replaced is None:
        return op.emit("IsNaN", x, dtype=BOOL) if x.dtype.kind == "f" else None
    return op.emit("Equal", x, op.const(content.replaced, x.dtype))


def _impute_dictionary(content: Imputer, name: str, value: Value, interface: Interface) -> None:
    """Absent keys get their values, and so do keys whose number is missing."""
    op = interface.op
    assert content.keys is not None
    given, numbers = interface.pairs(name)
    known = op.const(content.keys.numpy(), given.dtype)
    if isinstance(known_type := content.keys.type, TensorType) and (given.dtype == STRING) != (
        known_type.dtype is DType.STRING
    ):
        raise interface.error(f"has other keys than the dictionary {name!r}")
    is_there = op.emit("Not", op.emit("IsNaN", numbers, dtype=BOOL))
    kept = op.emit("Compress", given, is_there, axis=0)
    kept_numbers = op.emit("Compress", numbers, is_there, axis=0)
    same = op.cast(op.emit("Equal", op.reshape(known, (-1, 1)), op.reshape(kept, (1, -1))), np.int32)
    count = op.emit("ReduceSum", same, op.const([1], I64), keepdims=0)
    is_absent = op.emit("Equal", count, op.const(0, np.int32))
    more = op.emit("Compress", known, is_absent, axis=0)
    more_numbers = op.emit("Compress", interface.weight(content.imputed, "imputed"), is_absent, axis=0)
    interface.give_pairs(
        value, op.emit("Concat", kept, more, axis=0), op.emit("Concat", kept_numbers, more_numbers, axis=0)
    )


def lower_normalizer(content: Normalizer, interface: Interface) -> None:
    """Lowers a `Normalizer`."""
    op, name = interface.op, interface.only_input()
    row, axis = interface.row(), op.const([1], I64)
    match content.norm:
        case "L1":
            norm = op.emit("ReduceL1", row, axis, keepdims=1)
        case "L2":
            norm = op.emit("ReduceL2", row, axis, keepdims=1)
        case "LMax":
            norm = op.emit("ReduceMax", op.emit("Abs", row), axis, keepdims=1)
    is_zero = op.emit("Equal", norm, op.const(0.0, F64))
    norm = op.emit("Where", is_zero, op.const(1.0, F64), norm, dtype=F64)
    interface.give(_only_output(interface), op.emit("Div", row, norm), interface.size(name))


def lower_one_hot_encoder(content: OneHotEncoder, interface: Interface) -> None:
    """Lowers a `OneHotEncoder`."""
    op, name, value = interface.op, interface.only_input(), _only_output(interface)
    keys = content.keys.numpy().tolist()
    place = interface.place(name, keys, is_closed=not content.ignores_unknown)
    if isinstance(value.type, DictType):
        is_named = value.type.key == TensorType(DType.STRING, ())
        if is_named and not isinstance(keys[0], str):
            interface.contradict()
        known = op.emit("Compress", place, op.emit("GreaterOrEqual", place, op.const(0, I64)), axis=0)
        ones = op.emit("Expand", op.const([1.0], F64), op.shape_of(known))
        interface.give_pairs(value, known, ones, keys if is_named else None)
        return
    ruler = op.emit("Unsqueeze", op.const(np.arange(len(keys)), I64), op.const([0], I64))
    is_place = op.emit("Equal", op.reshape(place, (1, 1)), ruler)
    interface.give(value, op.cast(is_place, F64), len(keys))


def lower_scaler(content: Scaler, interface: Interface) -> None:
    """Lowers a `Scaler`."""
    op = interface.op
    shift, scale = content.shift.numpy(), content.scale.numpy()
    width = max(len(shift), len(scale))
    row = interface.row(width if width > 1 else None)
    sizes = [interface.size(name) for name in interface.inputs]
    moved = op.emit("Add", row, op.reshape(interface.weight(content.shift, "shift"), (1, -1)))
    scaled = op.emit("Mul", moved, op.reshape(interface.weight(content.scale, "scale"), (1, -1)))
    count = None if None in sizes else sum(size or 0 for size in sizes)
    interface.give(_only_output(interface), scaled, count)
