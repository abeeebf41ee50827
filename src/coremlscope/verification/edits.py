"""Edits of a program for experiments: another constant, another operation, other types. Each returns a new
function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import (
    Argument,
    Array,
    Constant,
    DType,
    Function,
    Op,
    TensorType,
    Value,
    constant,
)
from coremlscope.model.ir.rewriting import constants_of, with_ops


def set_constant(function: Function, changes: Mapping[tuple[str, str], Array]) -> Function:
    """Replaces constants that operations read.

    Args:
        function: The function.
        changes: The new elements by the id of the operation and the name of its parameter. They get the shape
            of what they replace, and its type, but for fp16: other numbers stay in float32.

    Raises:
        ValueError: There are more or fewer elements than before.
    """
    ops: list[Op] = []
    constants, changed = constants_of(function), {op_id for op_id, _ in changes}
    for op in function.graph.ops:
        if op.id not in changed:
            ops.append(op)
            continue
        inputs = dict(op.inputs)
        for (op_id, parameter), array in changes.items():
            if op_id != op.id or not inputs.get(parameter):
                continue
            several = inputs[parameter]
            own = (i for i, one in enumerate(several) if isinstance(one, Constant) or one.name in constants)
            place = next(own, 0)  # Of several arguments, as of a join, the first constant.
            old = several[place]
            assert isinstance(old.type, TensorType)
            shape = tuple(size or 1 for size in old.type.shape or ())
            dtype = DType.FP32 if old.type.dtype is DType.FP16 else old.type.dtype
            content: Argument = constant(np.asarray(array).reshape(shape), dtype)
            inputs[parameter] = (*several[:place], content, *several[place + 1 :])
        ops.append(replace(op, inputs=inputs))
    return with_ops(function, ops)


def with_op(function: Function, op: Op) -> Function:
    """Replaces the operation that computes the same value by another one."""
    name = op.outputs[0].name
    ops = [op if one.outputs and one.outputs[0].name == name else one for one in function.graph.ops]
    return with_ops(function, ops)


def with_half_results(function: Function) -> Function:
    """Declares all float32 values of a neural network as fp16: the GPU and the Neural Engine compute it
    so."""
    graph = function.graph

    def half(value: Value) -> Value:
        is_single = isinstance(value.type, TensorType) and value.type.dtype is DType.FP32
        return replace(value, type=replace(value.type, dtype=DType.FP16)) if is_single else value

    values = {value.name: half(value) for value in (*graph.inputs, *_values(graph.ops))}
    ops = [
        replace(
            op,
            inputs={
                name: tuple(values.get(a.name, a) if isinstance(a, Value) else a for a in given)
                for name, given in op.inputs.items()
            },
            outputs=op.outputs if op.constant is not None else tuple(map(half, op.outputs)),
        )
        for op in graph.ops
    ]
    inputs, outputs = (tuple(map(half, several)) for several in (graph.inputs, graph.outputs))
    halved = replace(graph, inputs=inputs, ops=tuple(ops), outputs=outputs)
    return replace(function, graph=halved, specialise=None)


def _values(ops: Iterable[Op]) -> list[Value]:
    return [value for op in ops for value in op.outputs]
