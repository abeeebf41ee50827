"""Arithmetic of the Neural Engine inside operations, of which rounded results do not show what is lost.

It computes some operations from exponentials: `softplus(12)` is 12 in any arithmetic, but e¹² is no fp16
number. Such results are 0 above a limit, and Mish, x · tanh(softplus(x)), returns 0 instead of x. The CPU
and the GPU are right (sources: apple/coremltools issues 2687 and 2690, on M1 to M4, and 2359 for Mish, which
has a softplus).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from coremlscope.model.ir import DType, Function, Op, TensorType
from coremlscope.model.ir.rewriting import Chain, with_ops
from coremlscope.planning.hazards.values import EXPONENTIAL_LIMITS

#: The name of a run in which exponentials overflow.
INSIDE: Final = "fp16-inside"


def with_overflow(function: Function) -> Function:
    """Makes results 0 whose exponentials overflow; returns the function itself if it has no such
    operations."""
    ops = [written for op in function.graph.ops for written in _written(op)]
    return with_ops(function, ops) if len(ops) > len(function.graph.ops) else function


def _written(op: Op) -> tuple[Op, ...]:
    type_ = op.outputs[0].type if op.outputs else None
    is_half = isinstance(type_, TensorType) and type_.dtype is DType.FP16
    if op.type not in EXPONENTIAL_LIMITS or not is_half:
        return (op,)
    assert isinstance(type_, TensorType)
    name = op.outputs[0].name
    chain = Chain(f"{name}_inside", DType.FP16)
    right = chain.add(op.type, type_, **{key: given[0] for key, given in op.inputs.items() if given})
    limit = np.array(EXPONENTIAL_LIMITS[op.type], np.float32)
    is_kept = chain.add("less", TensorType(DType.BOOL, type_.shape), x=right, y=limit)
    chain.add("select", type_, cond=is_kept, a=right, b=np.array(0, np.float32))
    return chain.ending(name)
