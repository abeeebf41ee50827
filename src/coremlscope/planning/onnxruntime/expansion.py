"""Operators that ONNX Runtime expands into others after its providers refused them.

(Source: the functions in ONNX's published operator schemas; which ones are expanded was measured with ONNX
Runtime 1.32 by sessions of one operator.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from coremlscope.base.arrays import np
from coremlscope.formats.onnx.graph import Node
from coremlscope.model.ir import Constant, DType, TensorType, constant

#: A step of an expansion: the operator, its inputs and its result, by names within the expansion.
_Step = tuple[str, tuple[str, ...], str]
_Steps = tuple[_Step, ...]
_X, _Y = "x", "y"
#: The second and third input.
_SCALE, _BIAS = "scale", "bias"

_EXPANSIONS: Mapping[str, _Steps] = {
    "CastLike": (("Cast", (_X,), _Y),),
    "HardSwish": (("HardSigmoid", (_X,), "h"), ("Mul", (_X, "h"), _Y)),
    "Mish": (("Softplus", (_X,), "s"), ("Tanh", ("s",), "t"), ("Mul", (_X, "t"), _Y)),
    "Swish": (
        ("CastLike", ("alpha", _X), "a"),
        ("Mul", (_X, "a"), "m"),
        ("Sigmoid", ("m",), "s"),
        ("Mul", (_X, "s"), _Y),
    ),
}
#: GroupNormalization up to the mean and after the deviation is the same in both definitions.
_MOMENTS: _Steps = (
    ("Cast", (_SCALE,), "scale_t"),
    ("Reshape", ("scale_t", "row"), "scale_row"),
    ("Shape", (_X,), "space"),
    ("Shape", (_X,), "batch"),
    ("Shape", (_X,), "channels"),
    ("Div", ("channels", "groups"), "group_size"),
    ("Concat", ("batch", "groups", "group_size", "space"), "shape"),
)
_DEVIATION: _Steps = (
    ("Reshape", ("grouped", "rows"), "g"),
    ("ReduceMean", ("g", "last"), "mean"),
    ("Sub", ("g", "mean"), "deviation"),
    ("Mul", ("mean", "mean"), "square_of_mean"),
    ("Mul", ("g", "g"), "square"),
    ("ReduceMean", ("square", "last"), "mean_of_square"),
    ("Sub", ("mean_of_square", "square_of_mean"), "variance"),
    ("Cast", ("float_epsilon",), "epsilon"),
    ("Add", ("variance", "epsilon"), "v"),
    ("Sqrt", ("v",), "s"),
    ("Div", ("deviation", "s"), "n"),
)
_AFFINE: _Steps = (
    ("Cast", (_BIAS,), "bias_t"),
    ("Reshape", ("bias_t", "row"), "bias_row"),
    ("Add", ("scaled", "bias_row"), "biased"),
)
#: The operators with steps by definition.
_GROUPED: Mapping[str, Mapping[int, _Steps]] = {
    "GroupNormalization": {
        18: (
            *_MOMENTS,
            ("Reshape", (_X, "shape"), "grouped"),
            *_DEVIATION,
            ("Mul", ("scale_row", "n"), "scaled"),
            *_AFFINE,
            ("Shape", (_X,), "x_shape"),
            ("Reshape", ("biased", "x_shape"), _Y),
        ),
        21: (
            *_MOMENTS,
            ("Cast", (_X,), "x_u"),
            ("Reshape", ("x_u", "shape"), "grouped"),
            *_DEVIATION,
            ("Shape", ("x_u",), "x_shape"),
            ("Reshape", ("n", "x_shape"), "normalized"),
            ("Reshape", ("normalized", "rows"), "by_channel"),
            ("Cast", ("by_channel",), "by_channel_t"),
            ("Mul", ("scale_row", "by_channel_t"), "scaled"),
            *_AFFINE,
            ("Reshape", ("biased", "x_shape"), _Y),
        ),
    }
}
#: Attributes of its steps, and its constants.
_ATTRIBUTES: Mapping[str, Mapping[str, object]] = {
    "space": {"start": 2},
    "batch": {"start": 0, "end": 1},
    "channels": {"start": 1, "end": 2},
}
_CONSTANTS: Mapping[str, tuple[int, ...]] = {
    "row": (1, -1, 1),
    "rows": (0, 0, -1),
    "last": (2,),
    "groups": (1,),
}
#: The sizes of its integers, of its values of three axes, and of those with the input's type.
_INTEGERS = {"space": 2, "batch": 1, "channels": 1, "group_size": 1, "shape": 5, "x_shape": 4}
_SAME = frozenset({"x_u", "normalized", _Y})
_GROUPED_RANK = 5
#: Operators of float16 that no kernel of the CPU provider takes.
_HALF_EXPANSIONS: Mapping[str, _Steps] = {
    "Gelu": (
        ("Sqrt", ("two",), "r"),
        ("Div", (_X, "r"), "d"),
        ("Erf", ("d",), "e"),
        ("Sum", ("e", "one"), "u"),
        ("Mul", ("half", _X), "p"),
        ("Mul", ("p", "u"), _Y),
    ),
    "LogSoftmax": (
        ("ReduceMax", (_X,), "m"),
        ("Sub", (_X, "m"), "d"),
        ("Exp", ("d",), "e"),
        ("ReduceSum", ("e",), "s"),
        ("Log", ("s",), "l"),
        ("Sub", ("d", "l"), _Y),
    ),
    "Softmax": (
        ("ReduceMax", (_X,), "m"),
        ("Sub", (_X, "m"), "d"),
        ("Exp", ("d",), "e"),
        ("ReduceSum", ("e",), "s"),
        ("Div", ("e", "s"), _Y),
    ),
}
_LEAST = {"Softmax": 13, "LogSoftmax": 13, "Gelu": 20}


class Expansion(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator is expanded into.

    Attributes:
        nodes: The operators; none if it stays.
        types: The types of their results and constants.
        constants: Their constants.
    """

    nodes: tuple[Node, ...] = ()
    types: Mapping[str, TensorType] = {}
    constants: Mapping[str, Constant] = {}


def expand(node: Node, opset: int, types: Mapping[str, TensorType]) -> Expansion:
    """Returns what ONNX Runtime expands an operator into.

    Args:
        node: The operator.
        opset: The version of ONNX's own operators.
        types: The types of values.
    """
    source = types.get(node.inputs[0]) if node.is_own and node.inputs and node.outputs else None
    steps = () if source is None else _steps(node.op, opset, source.dtype)
    if source is None or not steps:
        return Expansion()
    place = dict(zip((_X, _SCALE, _BIAS), node.inputs, strict=False)) | {_Y: node.outputs[0]}
    names = {name: place.get(name, f"{node.outputs[0]}/{name}") for name in _names(steps)}
    constants = {name: values for name, values in _CONSTANTS.items() if name in names}
    number = {DType.FP16: 10, DType.FP64: 11}.get(source.dtype, 1)
    return Expansion(
        nodes=tuple(
            Node(
                op=op,
                domain="",
                name=f"{node.label}/{op}",
                inputs=tuple(names[name] for name in given),
                outputs=(names[result],),
                attributes={"to": number} if op == "Cast" else _ATTRIBUTES.get(result, {}),
            )
            for op, given, result in steps
        ),
        types=_types(node.op, steps, names, source),
        constants={
            names[name]: constant(np.array(values, np.int64), DType.INT64)
            for name, values in constants.items()
        },
    )


def _names(steps: _Steps) -> Iterator[str]:
    for _, given, result in steps:
        yield from (*given, result)


def _types(op: str, steps: _Steps, names: Mapping[str, str], source: TensorType) -> dict[str, TensorType]:
    """Returns the types of results and constants; those of the inputs are known."""
    made, scalar = {result for _, _, result in steps}, TensorType(source.dtype, ())
    given = {_X, _SCALE, _BIAS}
    if op in _GROUPED:
        return {own: _type_in_group(name, source) for name, own in names.items() if name not in given}
    # All steps work element by element, except sums over an axis, which keep the rank.
    return {own: source if name in made else scalar for name, own in names.items() if name not in given}


def _steps(op: str, opset: int, dtype: DType) -> _Steps:
    if op in _GROUPED:
        return next((_GROUPED[op][one] for one in (21, 18) if one <= opset), ())
    if op in _EXPANSIONS or dtype is not DType.FP16 or opset < _LEAST.get(op, opset + 1):
        return _EXPANSIONS.get(op, ())
    return _HALF_EXPANSIONS.get(op, ())


def _type_in_group(name: str, source: TensorType) -> TensorType:
    """Returns the type of a step of GroupNormalization, as ONNX Runtime infers it: sizes are lost."""
    if name in _CONSTANTS:
        return TensorType(DType.INT64, (len(_CONSTANTS[name]),))
    if name in _INTEGERS:
        return TensorType(DType.INT64, (_INTEGERS[name],))
    if name in _SAME:
        return source
    if name.startswith(("scale_", "bias_")):
        return TensorType(source.dtype, (1,) if name.endswith("_t") else (1, 1, 1))
    if name == "float_epsilon":
        return TensorType(source.dtype, ())
    rank = _GROUPED_RANK if name == "grouped" else 3
    return TensorType(source.dtype, (1,) * 3 if name.startswith("by_channel") else (None,) * rank)
