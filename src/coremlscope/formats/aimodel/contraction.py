"""Convolutions, matrix products, poolings and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from coremlscope.formats.aimodel.translation import Operand, Row, Token, Translation, dims_of
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate, Given
from coremlscope.model.ir import DType


def convolution(t: Translation, x: Operand, padding: Sequence[int] | None, bias: Given) -> Operand:
    """Emits a convolution with the padding and the bias that were joined with it."""
    spatial = len(dims_of(x)) - 2
    return t.builder.op(
        "conv",
        x=_tensor(x),
        weight=t.tensor(1),
        bias=bias,
        strides=_each(t.integers(2), spatial),
        pad_type="custom",
        pad=list(padding or [0] * (2 * spatial)),
        dilations=_each(t.integers(3), spatial),
        groups=t.integer(4),
    )


def _tensor(operand: Operand) -> Given:
    if isinstance(operand, Token):
        raise CannotTranslate("an argument is not a tensor")
    return operand


def _each(values: list[int], count: int) -> list[int]:
    """Returns one value per axis."""
    if len(values) not in (1, count):
        raise CannotTranslate(f"{len(values)} numbers for {count} axes")
    return values * count if len(values) == 1 else values


def _conv_transpose(t: Translation) -> Operand:
    spatial = len(dims_of(t.x)) - 2
    padding, extra = _each(t.integers(3), spatial), _each(t.integers(5), spatial)
    shape = t.result_type().shape
    known = [size for size in shape or () if size is not None]
    if any(extra) and len(known) != spatial + 2:
        raise CannotTranslate("the size of its result is not known before run time")
    return t.builder.op(
        "conv_transpose",
        x=t.x,
        weight=t.tensor(1),
        strides=_each(t.integers(2), spatial),
        pad_type="custom",
        pad=[side for size in padding for side in (size, size)],
        dilations=_each(t.integers(4), spatial),
        groups=t.integer(6),
        output_shape=known if len(known) == spatial + 2 else None,
    )


def linear(t: Translation, weight: Operand, bias: Given) -> Operand:
    """Emits a product with a transposed constant weight as a linear layer."""
    return t.builder.op("linear", x=t.x, weight=_tensor(weight), bias=bias)


def matmul(t: Translation, y: Operand | None = None) -> Operand:
    """Emits a matrix product; with `y`, that of its transposition in place of the second argument."""
    if y is not None:
        return t.builder.op("matmul", x=t.x, y=_tensor(y), transpose_x=False, transpose_y=True)
    return t.builder.op("matmul", x=t.x, y=t.tensor(1), transpose_x=False, transpose_y=False)


def pool(t: Translation, type_: str, x: Operand, padding: Sequence[int] | None, **others: bool) -> Operand:
    """Emits a pooling with the padding that was joined with it."""
    spatial = len(dims_of(x)) - 2
    if any(step != 1 for step in t.integers(3)):
        raise CannotTranslate("Core ML has no poolings with dilation")
    return t.builder.op(
        type_,
        named="",
        x=_tensor(x),
        kernel_sizes=_each(t.integers(1), spatial),
        strides=_each(t.integers(2), spatial),
        pad_type="custom",
        pad=list(padding or [0] * (2 * spatial)),
        **others,
    )


# Reductions


def _reduce(type_: str) -> Callable[[Translation], Operand]:
    return lambda t: t.builder.op(type_, x=t.x, axes=t.integers(1), keep_dims=True)


def _any(type_: str) -> Callable[[Translation], Operand]:
    """Reduces booleans, as the largest or smallest of 0 and 1."""

    def translate(t: Translation) -> Operand:
        b = t.builder
        numbers = b.op("cast", x=t.x, dtype=DType.INT32.value)
        found = b.op(type_, x=numbers, axes=t.integers(1), keep_dims=True)
        return b.op("cast", x=found, dtype=DType.BOOL.value)

    return translate


def _argmax(t: Translation) -> Operand:
    keeps = len(t.result_type().shape or ()) == len(dims_of(t.x))
    return t.builder.op("reduce_argmax", x=t.x, axis=t.integer(1), keep_dims=keeps)


def _softmax(t: Translation) -> Operand:
    return t.builder.op("softmax", x=t.x, axis=t.integer(1))


def _sum_pool(t: Translation) -> Operand:
    """Sums windows: their mean, multiplied by their size."""
    mean = pool(t, "avg_pool", t.x, None)
    assert isinstance(mean, Blob)
    size = math.prod(_each(t.integers(1), len(dims_of(t.x)) - 2))
    return t.builder.op("mul", x=mean, y=np.asarray(size, t.dtype.numpy))


def _max_pool(t: Translation) -> Operand:
    return pool(t, "max_pool", t.x, None, ceil_mode=t.flag(4))


#: Operations that combine elements by name.
ROWS: dict[str, Row] = {
    **{name: Row(lambda t: convolution(t, t.x, None, None), (5, 5)) for name in ("conv2d", "conv3d")},
    **{name: Row(_conv_transpose, (7, 7)) for name in ("conv_transpose2d", "conv_transpose3d")},
    **{name: Row(matmul, (2, 2)) for name in ("batch_matmul", "broadcasting_batch_matmul")},
    **{name: Row(_max_pool, (5, 5)) for name in ("max_pool_2d", "max_pool_3d")},
    **{name: Row(_sum_pool, (4, 4)) for name in ("sum_pool_2d", "sum_pool_3d")},
    **{
        f"reduce_{name}": Row(_reduce(f"reduce_{type_}"), (2, 2))
        for name, type_ in (
            ("sum", "sum"),
            ("mean", "mean"),
            ("max", "max"),
            ("min", "min"),
            ("product", "prod"),
        )
    },
    "any": Row(_any("reduce_max"), (2, 2)),
    "all": Row(_any("reduce_min"), (2, 2)),
    "argmax": Row(_argmax, (2, 2)),
    "softmax": Row(_softmax, (2, 2)),
}
