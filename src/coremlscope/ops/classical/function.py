"""Classical models as functions of one operation, to be bound, shown and timed like other functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import msgspec.structs
import numpy as np

from coremlscope.model.ir import (
    ArrayFeature,
    Classical,
    Constant,
    DictionaryFeature,
    DictType,
    DoubleFeature,
    DType,
    Feature,
    Function,
    FunctionDescription,
    Graph,
    ImageFeature,
    Int64Feature,
    ListType,
    Op,
    SequenceFeature,
    StateFeature,
    StringFeature,
    TensorType,
    Value,
    ValueType,
    channels,
    constant,
)
from coremlscope.ops.classical import classical_types


def as_function(content: Classical, name: str, interface: FunctionDescription) -> Function:
    """A function with one operation, whose inputs are `features` and the parameters as constants."""
    inputs = tuple(Value(feature.name, _type(feature)) for feature in interface.inputs)
    outputs = tuple(Value(feature.name, _type(feature)) for feature in interface.outputs)
    arguments = {key: (value,) for key, value in _parameters(content)}
    op = Op(id=f"{name}/0", type=content.kind, inputs={"features": inputs, **arguments}, outputs=outputs)
    return Function(name=name, opset="", graph=Graph(name=name, inputs=inputs, ops=(op,), outputs=outputs))


def _parameters(content: Any) -> Iterator[tuple[str, Constant]]:
    """The arrays and numbers of a model and of its parts, by name."""
    for field in content.__struct_fields__:
        value = getattr(content, field)
        if isinstance(value, Constant):
            yield field, value
        elif isinstance(value, msgspec.Struct):
            yield from _parameters(value)
        elif isinstance(value, (bool, int)) and abs(value) < 2**31:
            yield field, constant(value)
        elif isinstance(value, float):
            yield field, constant(np.float64(value))


def _type(feature: Feature) -> ValueType:
    """The type of a feature's value in a classical model; numbers have 64 bits."""
    match feature.type:
        case DoubleFeature():
            return TensorType(DType.FP64, (1,))
        case Int64Feature():
            return TensorType(DType.INT64, (1,))
        case StringFeature():
            return TensorType(DType.STRING, ())
        case DictionaryFeature(key):
            return DictType(TensorType(DType(key), ()), TensorType(DType.FP64, ()))
        case SequenceFeature(element):
            return ListType(TensorType(DType(element), ()), None)
        case ArrayFeature(dtype=dtype, shape=shape, flexibility=None) | StateFeature(
            ArrayFeature(dtype=dtype, shape=shape)
        ) if shape:
            return TensorType(dtype, shape)
        case ArrayFeature(dtype=dtype) | StateFeature(ArrayFeature(dtype=dtype)):
            return TensorType(dtype, None)
        case ImageFeature(_, width, height, flexibility) as image:
            size = (height, width) if flexibility is None else (None, None)
            return TensorType(DType.FP32, (1, channels(image), *size))


def with_absent_values(
    content: object, interface: FunctionDescription, values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Feature values, with those that a classical model defines for optional inputs that are absent.

    A tree ensemble treats them as missing values, which are NaN; an imputer has a value for them; thresholds
    default to those of the model.

    Args:
        content: The content of the model, classical or not.
        interface: Its features.
        values: The given values, by input name.
    """
    absent = [f for f in interface.inputs if f.is_optional and f.name not in values]
    if not absent or not isinstance(content, Classical):
        return values
    define = classical_types()[content.kind].absent_values
    if define is None:
        return values
    defined, names = define(content, absent, values), {feature.name for feature in absent}
    return {**values, **{name: v for name, v in defined.items() if name in names and v is not None}}
