"""The interface of a program without a description: from the signatures of its functions.

Apple's compiler adds the attribute `FlexibleShapeInformation` to functions with flexible inputs: a tuple of
pairs with a name (`DefaultShapes`, `RangeDims` or `EnumeratedShapes`) and a dictionary. It is as in published
compiled models. Images and the author's descriptions are not in a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coremlscope.model import ir

_FLEXIBLE_SHAPES = "FlexibleShapeInformation"
_ARRAY_DTYPES = (ir.DType.FP16, ir.DType.FP32, ir.DType.FP64, ir.DType.INT32, ir.DType.INT8)


def read_signature(program: ir.Program) -> ir.Description:
    """Derives the interface of a program. The default function is `main`, or else the first one."""
    functions = {name: _function(function) for name, function in program.functions.items()}
    return ir.Description(functions, "main" if "main" in functions else next(iter(functions)))


def _function(function: ir.Function) -> ir.FunctionDescription:
    information = function.attributes.get(_FLEXIBLE_SHAPES)
    shapes = _plain(information) if information is not None else ()
    flexible = {key: value for key, value in shapes if isinstance(value, dict)} if _are_pairs(shapes) else {}
    inputs, states = [], []
    for value in function.graph.inputs:
        if isinstance(value.type, ir.StateType):
            states.append(ir.Feature(value.name, ir.StateFeature(_array(value.type.wrapped))))
        else:
            inputs.append(ir.Feature(value.name, _input(value, flexible)))
    outputs = tuple(ir.Feature(value.name, _array(value.type)) for value in function.graph.outputs)
    return ir.FunctionDescription(inputs=tuple(inputs), outputs=outputs, states=tuple(states))


def _are_pairs(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, tuple) and len(item) == 2 for item in value)


def _input(value: ir.Value, flexible: Mapping[str, dict[Any, Any]]) -> ir.ArrayFeature:
    array = _array(value.type)
    if not isinstance(value.type, ir.TensorType) or value.type.is_static or value.type.shape is None:
        return array
    shape = value.type.shape
    default = _sizes(flexible.get("DefaultShapes", {}).get(value.name), shape)
    entries = flexible.get("EnumeratedShapes", {}).values()
    choices = [_sizes(entry.get(value.name), shape) for entry in entries if isinstance(entry, dict)]
    known = tuple(choice for choice in choices if choice is not None)
    flexibility: ir.ShapeFlexibility
    if known and len(known) == len(choices):
        flexibility = ir.EnumeratedShapes(known)
    else:
        unknown = tuple((1, -1) if size is None else (size, size) for size in shape)
        bounds = _bounds(flexible.get("RangeDims", {}).get(value.name), shape)
        flexibility = ir.RangeShapes(bounds or unknown)
    return ir.ArrayFeature(dtype=array.dtype, shape=default or array.shape, flexibility=flexibility)


def _sizes(found: Any, shape: ir.Shape) -> tuple[int, ...] | None:
    """Returns a list of sizes as a shape; None if it is not one of the rank of `shape`."""
    if not isinstance(found, list) or len(found) != len(shape) or not _are_integers(found):
        return None
    return tuple(found) if min(found, default=0) >= 0 else None


def _bounds(found: Any, shape: ir.Shape) -> tuple[tuple[int, int], ...] | None:
    """Returns a list of pairs as bounds of dimensions; None if it is not one for the rank of `shape`."""
    if not isinstance(found, list) or len(found) != len(shape):
        return None
    if not all(isinstance(pair, list) and len(pair) == 2 and _are_integers(pair) for pair in found):
        return None
    return tuple((low, max(high, -1)) for low, high in found)


def _are_integers(values: list[Any]) -> bool:
    return all(isinstance(value, int) for value in values)


def _array(type_: ir.ValueType) -> ir.ArrayFeature:
    """Returns the feature of a tensor, in which unknown dimensions are 1."""
    if not isinstance(type_, ir.TensorType):
        return ir.ArrayFeature(dtype=ir.DType.FP32, shape=())
    dtype = type_.dtype if type_.dtype in _ARRAY_DTYPES else ir.DType.FP32
    return ir.ArrayFeature(
        dtype=dtype, shape=tuple(1 if size is None else size for size in type_.shape or ())
    )


def _plain(constant: ir.Constant) -> Any:
    """Converts a constant to Python tuples, lists, dictionaries and scalars."""
    if not isinstance(constant.data, ir.Nested):
        return constant.numpy().tolist()
    members = [_plain(item) for item in constant.data.items]
    match constant.type:
        case ir.DictType():
            keys = (key if isinstance(key, str | int | float) else str(key) for key in members[::2])
            return dict(zip(keys, members[1::2], strict=True))
        case ir.TupleType():
            return tuple(members)
        case _:
            return members
