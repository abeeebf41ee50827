"""A neural network as Core ML computes it: in half precision where the unit uses it.

The layers of a neural network do not define a precision. The Neural Engine works in half precision, and so
does the GPU by default (`MLModelConfiguration.allowLowPrecisionAccumulationOnGPU` and Apple's "Typed
Execution" article for coremltools). So plans and estimates use half-precision tensors. Indices stay integers.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import Constant, Derived, DType, TensorType, ValueType
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.view import BoundGraph, BoundValue, OpView


def in_half_precision(bound: BoundFunction) -> BoundFunction:
    """The function with fp16 instead of fp32, in values and constants. No weights are read."""
    return replace(bound, graph=_graph(bound.graph))


def _graph(graph: BoundGraph) -> BoundGraph:
    return BoundGraph(
        graph.graph,
        tuple(map(_value, graph.inputs)),
        tuple(map(op_in_half_precision, graph.ops)),
        tuple(map(_value, graph.outputs)),
    )


def op_in_half_precision(view: OpView) -> OpView:
    """The operation with fp16 instead of fp32, in values and constants. No weights are read."""
    inputs = {name: tuple(map(_value, given)) for name, given in view.inputs.items()}
    blocks = tuple(map(_graph, view.blocks))
    return OpView(
        op=view.op, inputs=inputs, opset=view.opset, blocks=blocks, outputs=tuple(map(_value, view.outputs))
    )


def _value(value: BoundValue) -> BoundValue:
    type_ = _type(value.type)
    if type_ is value.type:
        return value
    return BoundValue(type_, None if value.constant is None else _constant(value.constant, type_))


def _type(type_: ValueType) -> ValueType:
    if isinstance(type_, TensorType) and type_.dtype is DType.FP32:
        return replace(type_, dtype=DType.FP16)
    return type_


def _constant(constant: Constant, type_: ValueType) -> Constant:
    def compute() -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        with np.errstate(over="ignore"):
            return constant.numpy().astype(np.float16)

    return Constant(type_, Derived(compute, (constant,)))
