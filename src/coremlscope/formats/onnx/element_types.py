"""Element types of values, from those of inputs and constants."""

from __future__ import annotations

from collections.abc import Mapping

from coremlscope.formats.onnx.graph import Graph, Node
from coremlscope.formats.onnx.schema import DTYPES
from coremlscope.model.ir import Constant, DType

_BOOLEAN = frozenset(
    {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"}
)
_INT64 = frozenset({"ArgMax", "ArgMin", "NonMaxSuppression", "NonZero", "Shape", "Size"})
#: Operators whose result has the type of a later input.
_BY_INPUT = {"CastLike": 1, "OneHot": 2, "Where": 1, "DequantizeLinear": 1}


def element_types(graph: Graph, given: Mapping[str, DType] | None = None) -> dict[str, DType]:
    """Returns the element types of the values of a graph by name, as far as they follow from others.

    Args:
        graph: The graph.
        given: Types that are known to differ from those that the graph declares.
    """
    known = dict(given or {})
    for name, constant in graph.constants.items():
        known.setdefault(name, constant.type.dtype)  # type: ignore[union-attr]
    for one in graph.inputs:
        if one.type is not None:
            known.setdefault(one.name, one.type.dtype)
    for node in graph.nodes:
        dtypes = _results(node, known)
        for name, dtype in zip(node.outputs, dtypes, strict=False):
            if dtype is None and name in graph.types and given is None:
                dtype = graph.types[name].dtype
            if dtype is not None and name:
                known[name] = dtype
    return known


def _results(node: Node, known: Mapping[str, DType]) -> list[DType | None]:
    count = len(node.outputs)
    first = known.get(node.inputs[0]) if node.inputs else None
    if node.op in _BOOLEAN:
        return [DType.BOOL] * count
    if node.op in _INT64:
        return [DType.INT64] * count
    if node.op == "TopK":
        return [first, DType.INT64]
    if node.op == "Dropout":
        return [first, DType.BOOL]
    if node.op == "Cast":
        number = node.attributes.get("to")
        return [DTYPES.get(number) if isinstance(number, int) else None]
    if node.op in ("ConstantOfShape", "QuantizeLinear"):
        value = node.attributes.get("value")
        zero = known.get(node.inputs[2]) if len(node.inputs) > 2 else None
        dtype = value.type.dtype if isinstance(value, Constant) else None  # type: ignore[union-attr]
        return [dtype or zero or (DType.FP32 if node.op == "ConstantOfShape" else DType.UINT8)]
    if node.bodies:
        return [None] * count
    place = _BY_INPUT.get(node.op, 0)
    return [known.get(node.inputs[place]) if place < len(node.inputs) else first] * count
