"""Sums of products that are accumulated in fp16, as units do that keep no wider accumulator.

The results of a convolution, or of a product of matrices, are sums of many products. Rounding the result
alone does not show what is lost where a unit rounds the sum on its way: large parts that cancel each other
leave their rounding behind. Here the products are added in parts, each of which is rounded, and so is each
sum of them (source: apple/coremltools issue 2625, where a maintainer names sums in fp16 as the cause).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from coremlscope.model.ir import Array, Constant, DType, Function, Op, TensorType, Value
from coremlscope.model.ir.rewriting import Chain, constants_of, with_ops

__all__ = ["SUMMED", "with_partial_sums"]

#: Operations whose results are sums of products.
SUMMED: Collection[str] = frozenset({"conv", "linear", "matmul"})
#: Products that are added without rounding, the parts of a sum at most, and the products of a short sum.
_PART, _MOST_PARTS, _SHORT = 16, 32, 64


def with_partial_sums(function: Function) -> Function:
    """Writes sums of many products of fp16 numbers in parts, so that each sum of parts is rounded.

    Returns:
        The changed function; the function itself if it has no such sums.
    """
    known = constants_of(function)
    ops: list[Op] = []
    for op in function.graph.ops:
        written = _written(op, known) if op.type in SUMMED and _is_half(op) else ()
        ops += written or (op,)
    return with_ops(function, ops) if len(ops) > len(function.graph.ops) else function


def _is_half(op: Op) -> bool:
    type_ = op.outputs[0].type
    return isinstance(type_, TensorType) and type_.dtype is DType.FP16


def _written(op: Op, known: dict[str, Constant]) -> tuple[Op, ...]:
    """Returns the operations that add an operation's products in parts; none if they are few."""
    x, type_ = op.inputs["x"][0], op.outputs[0].type
    if not isinstance(x, Value) or not isinstance(x.type, TensorType) or not isinstance(type_, TensorType):
        return ()
    if x.type.shape is None or None in x.type.shape:
        return ()
    chain = Chain(f"{op.outputs[0].name}_sums", DType.FP16)
    parts = {"linear": _linear, "conv": _conv, "matmul": _matmul}[op.type](op, x, chain, known)
    total = next(parts, None)
    if total is None:
        return ()
    for part in parts:
        total = chain.add("add", type_, x=total, y=part)
    bias = op.inputs.get("bias", ())
    if bias:
        total = chain.add("add", type_, x=total, y=_shaped_bias(op, _array(op, "bias", known)))
    return chain.ending(op.outputs[0].name) if len(chain.ops) > 1 else ()


def _array(op: Op, key: str, known: dict[str, Constant]) -> Array | None:
    given = next(iter(op.inputs.get(key, ())), None)
    constant = given if isinstance(given, Constant) else known.get(getattr(given, "name", ""))
    return None if constant is None else constant.numpy()


def _shaped_bias(op: Op, bias: Array | None) -> Array:
    assert bias is not None
    type_ = op.outputs[0].type
    assert isinstance(type_, TensorType)
    rank = len(type_.shape or ())
    return bias.reshape((-1, *(1,) * (rank - 2))) if op.type == "conv" else bias


def _spans(count: int) -> list[tuple[int, int]]:
    """Returns the parts of a sum."""
    parts = min(_MOST_PARTS, count // _PART)
    edges = np.linspace(0, count, max(1, parts) + 1).astype(int)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _part_of(chain: Chain, value: Value, axis: int, span: tuple[int, int]) -> Value:
    assert isinstance(value.type, TensorType)
    shape = list(value.type.shape or ())
    begin, end = [0] * len(shape), [int(size or 0) for size in shape]
    begin[axis], end[axis] = span
    shape[axis] = span[1] - span[0]
    return chain.add(
        "slice_by_index",
        TensorType(value.type.dtype, tuple(shape)),
        x=value,
        begin=np.array(begin, np.int32),
        end=np.array(end, np.int32),
    )


def _linear(op: Op, x: Value, chain: Chain, known: dict[str, Constant]) -> Iterator[Value]:
    weight = _array(op, "weight", known)
    type_ = op.outputs[0].type
    assert isinstance(type_, TensorType)
    if (
        weight is None
        or weight.shape[1] < _SHORT
        or (op.inputs.get("bias") and _array(op, "bias", known) is None)
    ):
        return
    for span in _spans(weight.shape[1]):
        part = _part_of(chain, x, -1, span)
        yield chain.add("linear", type_, x=part, weight=weight[:, span[0] : span[1]])


def _conv(op: Op, x: Value, chain: Chain, known: dict[str, Constant]) -> Iterator[Value]:
    weight, groups = _array(op, "weight", known), _array(op, "groups", known)
    type_ = op.outputs[0].type
    assert isinstance(type_, TensorType)
    if weight is None or (groups is not None and int(groups.reshape(-1)[0]) != 1):
        return
    per_channel = int(np.prod(weight.shape[2:]))
    count = weight.shape[1] * per_channel
    if count < _SHORT or (op.inputs.get("bias") and _array(op, "bias", known) is None):
        return
    settings = {
        key: given[0] for key, given in op.inputs.items() if key not in ("x", "weight", "bias") and given
    }
    channels = _spans(count) if per_channel == 1 else _channel_spans(weight.shape[1], per_channel)
    for span in channels:
        part = _part_of(chain, x, 1, span)
        yield chain.add("conv", type_, x=part, weight=weight[:, span[0] : span[1]], **settings)


def _channel_spans(channels: int, per_channel: int) -> list[tuple[int, int]]:
    parts = max(1, min(_MOST_PARTS, channels, channels * per_channel // _PART))
    edges = np.linspace(0, channels, parts + 1).astype(int)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _matmul(op: Op, x: Value, chain: Chain, known: dict[str, Constant]) -> Iterator[Value]:
    y, type_ = op.inputs["y"][0], op.outputs[0].type
    assert isinstance(x.type, TensorType)
    assert isinstance(type_, TensorType)
    if not isinstance(y, Value) or y.name in known or not isinstance(y.type, TensorType):
        return
    flags = [_array(op, key, known) for key in ("transpose_x", "transpose_y")]
    is_turned = [flag is not None and bool(flag.reshape(-1)[0]) for flag in flags]
    shapes = x.type.shape or (), y.type.shape or ()
    if None in shapes[1] or min(map(len, shapes)) < 2:
        return
    axes = -2 if is_turned[0] else -1, -1 if is_turned[1] else -2
    count = int(shapes[0][axes[0]] or 0)
    if count < _SHORT:
        return
    settings = {key: op.inputs[key][0] for key in ("transpose_x", "transpose_y") if op.inputs.get(key)}
    for span in _spans(count):
        one, two = _part_of(chain, x, axes[0], span), _part_of(chain, y, axes[1], span)
        yield chain.add("matmul", type_, x=one, y=two, **settings)
