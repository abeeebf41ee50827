"""Roundings inside operations that the Neural Engine computes as a chain of simpler ones.

Rounding the result alone does not show these: `softplus(12)` is 12 in any arithmetic, but e¹² is no fp16
number. What was measured: both operations return 0 where they overflow, softplus from x = 10.4 on, where eˣ
reaches 2¹⁵, and `reduce_log_sum_exp` where the sum of exponentials passes 65504. So neither subtracts the
maximum first, and Mish, x · tanh(softplus(x)), returns 0 instead of x. The CPU and the GPU are right
(sources: apple/coremltools issues 2687 and 2690, on M1 to M4, and 2359 for Mish, which has a softplus).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import Argument, Array, Constant, DType, Function, Op, TensorType, Value, constant
from coremlscope.model.ir.rewriting import Chain, constants_of, with_ops

__all__ = ["COMPOSED", "has_composed", "with_inner_results", "with_stable_forms"]

#: The largest number in half precision.
_LARGEST = float(np.finfo(np.float16).max)


class _Chain(Chain):
    """Operations that compute the result of another one, in its element type.

    Args:
        op: The operation that they replace.
    """

    def __init__(self, op: Op) -> None:
        type_, given = op.outputs[0].type, op.inputs["x"][0].type
        assert isinstance(type_, TensorType)
        super().__init__(op.outputs[0].name, type_.dtype)
        self.type, self.given = type_, given if isinstance(given, TensorType) else type_

    def part(self, op_type: str, **inputs: Argument | Array) -> Value:
        """Adds an operation whose result has the shape of the argument."""
        return self.add(op_type, self.given, **inputs)


def _number(value: float) -> Array:
    return np.array(value, np.float32)


def _softplus(op: Op) -> tuple[Op, ...]:
    """Returns log(1 + eˣ), whose exponential overflows from 2¹⁵ on: it is computed as 2 eˣ."""
    chain = _Chain(op)
    doubled = chain.part("mul", x=chain.part("exp", x=op.inputs["x"][0]), y=_number(2))
    power = chain.part("mul", x=doubled, y=_number(0.5))
    return _logarithm(op, chain, chain.part("add", x=power, y=_number(1)))


def _stable_softplus(op: Op) -> tuple[Op, ...]:
    """Returns max(x, 0) + log(1 + e⁻ˡˣˡ), whose exponential is at most 1."""
    chain = _Chain(op)
    x = op.inputs["x"][0]
    negative = chain.part("mul", x=chain.part("abs", x=x), y=_number(-1))
    power = chain.part("add", x=chain.part("exp", x=negative), y=_number(1))
    rest = chain.part("log", x=power, epsilon=_number(0))
    chain.part("add", x=chain.part("relu", x=x), y=rest)
    return chain.ending(op.outputs[0].name)


def _log_sum_exp(op: Op) -> tuple[Op, ...]:
    """Returns log(Σ eˣ) without a shift by the maximum."""
    chain = _Chain(op)
    total = chain.add("reduce_sum", chain.type, x=chain.part("exp", x=op.inputs["x"][0]), **_axes(op))
    return _logarithm(op, chain, total)


def _logarithm(op: Op, chain: _Chain, total: Value) -> tuple[Op, ...]:
    """Returns the operations that end with the logarithm of a sum, which is 0 where the sum overflowed."""
    found = chain.add("log", chain.type, x=total, epsilon=_number(0))
    logical = TensorType(DType.BOOL, chain.type.shape)
    is_finite = chain.add("less_equal", logical, x=total, y=_number(_LARGEST))
    chain.add("select", chain.type, cond=is_finite, a=found, b=_number(0))
    return chain.ending(op.outputs[0].name)


def _stable_log_sum_exp(op: Op) -> tuple[Op, ...]:
    """Returns max(x) + log(Σ e^(x − max(x)))."""
    chain = _Chain(op)
    x, axes = op.inputs["x"][0], _axes(op)
    wide = {**axes, "keep_dims": constant(np.array(True))}
    largest = chain.add("reduce_max", TensorType(chain.type.dtype, _kept(op, chain)), x=x, **wide)
    power = chain.part("exp", x=chain.part("sub", x=x, y=largest))
    total = chain.add("reduce_sum", chain.type, x=power, **axes)
    rest = chain.add("log", chain.type, x=total, epsilon=_number(0))
    chain.add("add", chain.type, x=rest, y=chain.add("reduce_max", chain.type, x=x, **axes))
    return chain.ending(op.outputs[0].name)


def _axes(op: Op) -> dict[str, Argument]:
    return {name: op.inputs[name][0] for name in ("axes", "keep_dims") if op.inputs.get(name)}


def _kept(op: Op, chain: _Chain) -> tuple[int | None, ...] | None:
    """Returns the shape of a reduction that keeps its axes; unknown sizes where these are no constants."""
    shape, axes = chain.given.shape, next(iter(op.inputs.get("axes", ())), None)
    if shape is None or not isinstance(axes, Constant):
        return None if shape is None else (None,) * len(shape)
    reduced = {int(axis) % len(shape) for axis in axes.numpy().reshape(-1)}
    return tuple(1 if place in reduced else size for place, size in enumerate(shape))


Form = Callable[[Op], tuple[Op, ...]]
#: Arithmetic of the Neural Engine for an operation, by its type.
COMPOSED: Mapping[str, Form] = {"softplus": _softplus, "reduce_log_sum_exp": _log_sum_exp}
#: With the same result and no number that is larger than the arguments and the result.
_STABLE: Mapping[str, Form] = {"softplus": _stable_softplus, "reduce_log_sum_exp": _stable_log_sum_exp}


def _composed(function: Function) -> Iterator[Op]:
    for op in function.graph.ops:
        type_ = op.outputs[0].type if op.outputs else None
        is_half = isinstance(type_, TensorType) and type_.dtype is DType.FP16
        if op.type in COMPOSED and is_half and op.inputs.get("x"):
            yield op


def has_composed(function: Function) -> bool:
    """Returns whether a function has fp16 operations that the Neural Engine computes as chains."""
    return any(True for _ in _composed(function))


def with_inner_results(function: Function) -> Function:
    """Writes out the operations that the Neural Engine computes as chains, so that each part is rounded."""
    return _rewritten(function, COMPOSED, {op.id for op in _composed(function)})


def with_stable_forms(function: Function, op_ids: Collection[str]) -> Function:
    """Writes operations in a form that does not overflow inside.

    Args:
        function: The function.
        op_ids: The ids of the operations; others than `COMPOSED` stay as they are.
    """
    chosen = {op.id for op in function.graph.ops if op.type in COMPOSED}.intersection(op_ids)
    return _rewritten(function, _STABLE, chosen)


def _rewritten(function: Function, forms: Mapping[str, Form], op_ids: Collection[str]) -> Function:
    known = constants_of(function)

    def written(argument: Argument) -> Argument:
        return known.get(argument.name, argument) if isinstance(argument, Value) else argument

    ops: list[Op] = []
    for op in function.graph.ops:
        if op.id in op_ids:
            inputs = {name: tuple(map(written, given)) for name, given in op.inputs.items()}
            ops += forms[op.type](replace(op, inputs=inputs))
        else:
            ops.append(op)
    return with_ops(function, ops)
