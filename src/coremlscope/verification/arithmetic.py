"""Arithmetic of units inside operations, of which rounded results alone do not show what is lost.

*Exponentials.* The Neural Engine computes some operations from exponentials: `softplus(12)` is 12 in any
arithmetic, but e¹² is no fp16 number. What was measured: softplus returns 0 from x = 10.4 on, where eˣ
reaches 2¹⁵, and `reduce_log_sum_exp` where the sum of exponentials passes 65504. So neither subtracts the
maximum first, and Mish, x · tanh(softplus(x)), returns 0 instead of x. The CPU and the GPU are right
(sources: apple/coremltools issues 2687 and 2690, on M1 to M4, and 2359 for Mish, which has a softplus).

*Sums.* The results of a convolution, or of a product of matrices, are sums of many products. Where a unit
rounds the sum on its way, large parts that cancel each other leave their rounding behind. Here the products
are added in parts, each of which is rounded, and so is each sum of them (source: apple/coremltools issue
2625, where a maintainer names sums in fp16 as the cause).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from coremlscope.model.ir import Argument, Array, Constant, DType, Function, Op, TensorType, Value
from coremlscope.model.ir.rewriting import Chain, constants_of, with_ops
from coremlscope.planning.hazards.values import EXPONENTIAL_LIMITS
from coremlscope.results.verification import Cause

#: Operations whose results are sums of products: their argument, the axis along which they are added, and the
#: same for the other argument.
_SUMS: Mapping[str, tuple[int, str, int]] = {
    "conv": (1, "weight", 1),
    "linear": (-1, "weight", 1),
    "matmul": (-1, "y", -2),
}
#: Products that are added without rounding, the parts of a sum at most, and the products of a short sum.
_PART, _MOST_PARTS, _SHORT = 16, 32, 64


class Arithmetic(msgspec.Struct, frozen=True, kw_only=True):
    """An arithmetic of units.

    Attributes:
        run: The name of a run in it.
        write: Writes a function so that what a unit rounds is a result of its own; returns the function
            itself if it has no such operations.
        types: The operations in question.
        cause: The cause of a wrong result.
        text: It as a sentence, with the number of elements that are wrong, and how far they are off.
        is_measured: Whether it is known to be so on a device: else only an operation that stands out counts.
    """

    run: str
    write: Callable[[Function], Function]
    types: Collection[str]
    cause: Cause
    text: str
    is_measured: bool

    def suits(self, function: Function) -> bool:
        """Returns whether a function has operations of the types."""
        return self.write(function) is not function


def _is_half(op: Op) -> bool:
    type_ = op.outputs[0].type if op.outputs else None
    return isinstance(type_, TensorType) and type_.dtype is DType.FP16


def _rewritten(function: Function, write: Callable[[Op, Mapping[str, Constant]], tuple[Op, ...]]) -> Function:
    """Replaces operations by others; those of which none are written stay."""
    known, ops = constants_of(function), list[Op]()
    for op in function.graph.ops:
        ops += write(op, known) or (op,)
    return with_ops(function, ops) if len(ops) > len(function.graph.ops) else function


def _with_overflow(function: Function) -> Function:
    """Makes results 0 whose exponentials overflow."""

    def write(op: Op, known: Mapping[str, Constant]) -> tuple[Op, ...]:
        del known
        if op.type not in EXPONENTIAL_LIMITS or not _is_half(op):
            return ()
        name, type_ = op.outputs[0].name, op.outputs[0].type
        assert isinstance(type_, TensorType)
        chain = Chain(f"{name}_inside", DType.FP16)
        right = chain.add(op.type, type_, **{key: given[0] for key, given in op.inputs.items() if given})
        limit = np.array(EXPONENTIAL_LIMITS[op.type], np.float32)
        is_kept = chain.add("less", TensorType(DType.BOOL, type_.shape), x=right, y=limit)
        chain.add("select", type_, cond=is_kept, a=right, b=np.array(0, np.float32))
        return chain.ending(name)

    return _rewritten(function, write)


def _with_partial_sums(function: Function) -> Function:
    """Writes sums of many products of fp16 numbers in parts, so that each sum of parts is rounded."""
    return _rewritten(function, _summed)


def _summed(op: Op, known: Mapping[str, Constant]) -> tuple[Op, ...]:
    """Returns the operations that add an operation's products in parts; none if they are few."""
    type_ = op.outputs[0].type if op.outputs else None
    if op.type not in _SUMS or not _is_half(op) or not isinstance(type_, TensorType):
        return ()
    settings = {key: given[0] for key, given in op.inputs.items() if given}
    other, axis, other_axis = _axes(op.type, settings, known)
    x, y = settings.pop("x"), _content(settings.pop(other), known)
    bias = _content(settings.pop("bias", None), known)
    shapes = _shape(x), _shape(y)
    if None in (*shapes[0], *shapes[1]) or min(map(len, shapes)) < 2 or isinstance(bias, Value):
        return ()
    size = int(shapes[0][axis] or 0)
    count = size * (int(np.prod(shapes[1][2:])) if op.type == "conv" else 1)
    if size != shapes[1][other_axis] or count < _SHORT:  # Groups of a convolution are short sums.
        return ()
    edges = np.linspace(0, size, max(1, min(_MOST_PARTS, size, count // _PART)) + 1).astype(int).tolist()
    chain = Chain(f"{op.outputs[0].name}_sums", DType.FP16)
    total: Any = None
    for span in itertools.pairwise(edges):
        own, its = _part(chain, x, axis, span), _part(chain, y, other_axis, span)
        part = chain.add(op.type, type_, **{"x": own, other: its, **settings})
        total = part if total is None else chain.add("add", type_, x=total, y=part)
    if bias is not None:
        planes = bias.reshape(-1, *(1,) * (len(shapes[0]) - 2)) if op.type == "conv" else bias
        chain.add("add", type_, x=total, y=planes)
    return chain.ending(op.outputs[0].name) if len(chain.ops) > 1 else ()


def _axes(
    op_type: str, settings: Mapping[str, Argument], known: Mapping[str, Constant]
) -> tuple[str, int, int]:
    """Returns the name of the other argument, and the axes of both along which products are added."""
    axis, other, other_axis = _SUMS[op_type]
    if op_type == "matmul":
        turned = [np.any(_content(settings.get(f"transpose_{key}"), known)) for key in ("x", "y")]
        axis, other_axis = -2 if turned[0] else -1, -1 if turned[1] else -2
    return other, axis, other_axis


def _content(given: Argument | None, known: Mapping[str, Constant]) -> Any:
    """Returns the elements of a constant argument; another argument as it is."""
    content = given if isinstance(given, Constant) else known.get(getattr(given, "name", ""))
    return given if content is None else content.numpy()


def _shape(given: Any) -> Any:
    """Returns the shape of an argument, or of the elements of a constant; `(None,)` if it is not known."""
    if isinstance(given, np.ndarray):
        return given.shape
    type_ = None if given is None else given.type
    return (type_.shape or (None,)) if isinstance(type_, TensorType) else (None,)


def _part(chain: Chain, given: Argument | Array | None, axis: int, span: tuple[int, int]) -> Value | Array:
    """Returns a part of an argument along an axis."""
    if isinstance(given, np.ndarray):
        return np.take(given, range(*span), axis)
    assert given is not None
    type_ = given.type
    assert isinstance(type_, TensorType)
    shape = [int(size or 0) for size in _shape(given)]
    begin, end = [0] * len(shape), [*shape]
    begin[axis], end[axis] = span
    shape[axis] = span[1] - span[0]
    bounds = {"begin": np.array(begin, np.int32), "end": np.array(end, np.int32)}
    return chain.add("slice_by_index", TensorType(type_.dtype, tuple(shape)), x=given, **bounds)


#: In the order in which they are run.
ARITHMETICS: Final = (
    Arithmetic(
        run="fp16-inside",
        write=_with_overflow,
        types=EXPONENTIAL_LIMITS,
        cause="overflow",
        text="the Neural Engine computes it from exponentials, which overflow fp16 although its result does"
        " not: {lost} of {size} elements are lost (apple/coremltools issues 2687, 2690)",
        is_measured=True,
    ),
    Arithmetic(
        run="fp16-sums",
        write=_with_partial_sums,
        types=_SUMS,
        cause="accumulation",
        text="it adds many products, whose partial sums are larger than the result: a unit that accumulates"
        " in fp16 moves it by {error:.2g}, which rounding the result alone does not (apple/coremltools issue"
        " 2625)",
        is_measured=False,
    ),
)
