"""Operators that ONNX Runtime expands into others after its providers refused them.

(Source: the functions in ONNX's published operator schemas; which ones are expanded was measured with ONNX
Runtime 1.32 by sessions of one operator.)
"""

from __future__ import annotations

import re
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

#: Expansions in the syntax of ONNX's functions; `x`, `scale` and `bias` are inputs, `y` is the result.
_TEXT = """
CastLike:
y = Cast(x)
HardSwish:
h = HardSigmoid(x)
y = Mul(x, h)
Mish:
s = Softplus(x)
t = Tanh(s)
y = Mul(x, t)
Swish:
a = CastLike(alpha, x)
m = Mul(x, a)
s = Sigmoid(m)
y = Mul(x, s)
GroupNormalization-18:
scale_t = Cast(scale)
scale_row = Reshape(scale_t, row)
space = Shape(x)
batch = Shape(x)
channels = Shape(x)
group_size = Div(channels, groups)
shape = Concat(batch, groups, group_size, space)
grouped = Reshape(x, shape)
g = Reshape(grouped, rows)
mean = ReduceMean(g, last)
deviation = Sub(g, mean)
square_of_mean = Mul(mean, mean)
square = Mul(g, g)
mean_of_square = ReduceMean(square, last)
variance = Sub(mean_of_square, square_of_mean)
epsilon = Cast(float_epsilon)
v = Add(variance, epsilon)
s = Sqrt(v)
n = Div(deviation, s)
scaled = Mul(scale_row, n)
bias_t = Cast(bias)
bias_row = Reshape(bias_t, row)
biased = Add(scaled, bias_row)
x_shape = Shape(x)
y = Reshape(biased, x_shape)
GroupNormalization-21:
scale_t = Cast(scale)
scale_row = Reshape(scale_t, row)
space = Shape(x)
batch = Shape(x)
channels = Shape(x)
group_size = Div(channels, groups)
shape = Concat(batch, groups, group_size, space)
x_u = Cast(x)
grouped = Reshape(x_u, shape)
g = Reshape(grouped, rows)
mean = ReduceMean(g, last)
deviation = Sub(g, mean)
square_of_mean = Mul(mean, mean)
square = Mul(g, g)
mean_of_square = ReduceMean(square, last)
variance = Sub(mean_of_square, square_of_mean)
epsilon = Cast(float_epsilon)
v = Add(variance, epsilon)
s = Sqrt(v)
n = Div(deviation, s)
x_shape = Shape(x_u)
normalized = Reshape(n, x_shape)
by_channel = Reshape(normalized, rows)
by_channel_t = Cast(by_channel)
scaled = Mul(scale_row, by_channel_t)
bias_t = Cast(bias)
bias_row = Reshape(bias_t, row)
biased = Add(scaled, bias_row)
y = Reshape(biased, x_shape)
Gelu-float16:
r = Sqrt(two)
d = Div(x, r)
e = Erf(d)
u = Sum(e, one)
p = Mul(half, x)
y = Mul(p, u)
LogSoftmax-float16:
m = ReduceMax(x)
d = Sub(x, m)
e = Exp(d)
s = ReduceSum(e)
l = Log(s)
y = Sub(d, l)
Softmax-float16:
m = ReduceMax(x)
d = Sub(x, m)
e = Exp(d)
s = ReduceSum(e)
y = Div(e, s)
"""
_STEP = re.compile(r"(\w+) = (\w+)\((.*)\)")
_EXPANSIONS: Mapping[str, _Steps] = {
    heading: tuple((op, tuple(given.split(", ")), result) for result, op, given in _STEP.findall(lines))
    for heading, lines in re.findall(r"([\w-]+):\n((?:.*\n)*?)(?=[\w-]+:|$)", _TEXT)
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
_GROUPED_RANK, _GROUPED = 5, "GroupNormalization"
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
    if op == _GROUPED:
        return {own: _type_in_group(name, source) for name, own in names.items() if name not in given}
    # All steps work element by element, except sums over an axis, which keep the rank.
    return {own: source if name in made else scalar for name, own in names.items() if name not in given}


def _steps(op: str, opset: int, dtype: DType) -> _Steps:
    headings = [op, *(f"{op}-{version}" for version in (21, 18) if version <= opset)]
    if dtype is DType.FP16 and opset >= _LEAST.get(op, 0):
        headings.append(f"{op}-float16")
    return next((_EXPANSIONS[name] for name in headings if name in _EXPANSIONS), ())


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
