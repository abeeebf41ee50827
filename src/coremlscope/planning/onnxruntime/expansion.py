"""Operators that ONNX Runtime expands into others after its providers refused them.

(Source: the functions in ONNX's published operator schemas; which ones are expanded was measured with ONNX
Runtime 1.32 by sessions of one operator.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coremlscope.formats.onnx.graph import Node
from coremlscope.model.ir import DType

#: A step of an expansion: the operator, its inputs and its result, by names within the expansion.
_Step = tuple[str, tuple[str, ...], str]
_Steps = tuple[_Step, ...]
_X, _Y = "x", "y"

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


def expand(node: Node, opset: int, dtype: Callable[[str], DType | None]) -> tuple[Node, ...]:
    """Returns the operators into which one is expanded; none if it stays.

    Args:
        node: The operator.
        opset: The version of ONNX's own operators.
        dtype: Returns the element type of a value.
    """
    if not node.is_own or not node.inputs or not node.outputs:
        return ()
    steps = _EXPANSIONS.get(node.op, ())
    if not steps and opset >= _LEAST.get(node.op, opset + 1) and dtype(node.inputs[0]) is DType.FP16:
        steps = _HALF_EXPANSIONS.get(node.op, ())
    place = {_X: node.inputs[0], _Y: node.outputs[0]}
    names = {
        name: place.get(name, f"{node.outputs[0]}/{name}")
        for _, given, made in steps
        for name in (*given, made)
    }
    return tuple(
        Node(
            op=op,
            domain="",
            name=f"{node.label}/{op}",
            inputs=tuple(names[name] for name in given),
            outputs=(names[made],),
            attributes={"to": _number(dtype(place[_X]))} if op == "Cast" else {},
        )
        for op, given, made in steps
    )


def _number(dtype: DType | None) -> int:
    return {DType.FP16: 10, DType.FP64: 11}.get(dtype, 1) if dtype is not None else 1
