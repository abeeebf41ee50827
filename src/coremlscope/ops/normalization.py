"""Normalizations."""

from __future__ import annotations

import math
from collections.abc import Callable

from coremlscope.base.arrays import np
from coremlscope.ops.emit import F32, I64, Lowering, Tensor
from coremlscope.ops.infer import normal_axis, same_as
from coremlscope.ops.spec import OpSpec, Work, moved
from coremlscope.ops.traits import Trait
from coremlscope.ops.unary import offset
from coremlscope.ops.view import CannotInfer, CannotLower, OpView
from coremlscope.ops.work import per_element


def _scale_and_shift(op: Lowering, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """`gamma` and `beta`, which ONNX requires."""
    gamma, beta = op.get("gamma"), op.get("beta")
    op.emitter.check_array(*shape)
    return gamma or op.const(np.ones(shape), F32), beta or op.const(np.zeros(shape), F32)


def _channels(view: OpView) -> int:
    shape = view.shape("x")
    if len(shape) < 3:
        raise CannotInfer(f"a tensor of rank {len(shape)} has no channels")
    if shape[1] is None:
        raise CannotLower("a number of channels that is not known before run time")
    return shape[1]


def _batch_norm(op: Lowering) -> Tensor:
    gamma, beta = _scale_and_shift(op, op.view.static_shape("mean"))
    epsilon = op.view.real("epsilon", 1e-5)
    return op.emit("BatchNormalization", op["x"], gamma, beta, op["mean"], op["variance"], epsilon=epsilon)


def _instance_norm(op: Lowering) -> Tensor:
    gamma, beta = _scale_and_shift(op, (_channels(op.view),))
    return op.emit("InstanceNormalization", op["x"], gamma, beta, epsilon=op.view.real("epsilon", 1e-5))


def _l2_norm(op: Lowering) -> Tensor:
    x = op["x"]
    if len(op.view.shape("x")) < 3:
        raise CannotInfer("a tensor of fewer than three axes")
    total = op.emit("ReduceSumSquare", x, op.const([-3, -2, -1], I64), keepdims=1)
    return op.emit("Div", x, op.emit("Sqrt", offset(op, total, "epsilon", 1e-6)))


def _layer_norm_axes(view: OpView) -> list[int]:
    rank = len(view.shape("x"))
    axes = view.integers("axes", range(rank))
    return sorted({normal_axis(axis, rank) for axis in axes})


def _layer_norm(op: Lowering) -> Tensor:
    shape, axes = op.view.shape("x"), _layer_norm_axes(op.view)
    rank = len(shape)
    if not axes:
        raise CannotLower("no axes")
    scale = op.get("gamma")
    if scale is None:
        sizes = [size for axis in axes if (size := shape[axis]) is not None]
        if len(sizes) != len(axes):
            raise CannotLower("normalized axes of a size that is not known before run time")
        op.emitter.check_array(*sizes)
        scale = op.const(np.ones(sizes), F32)
    # ONNX normalizes the last axes.
    perm = [axis for axis in range(rank) if axis not in axes] + axes
    result = op.emit(
        "LayerNormalization",
        op.transpose(op["x"], perm),
        scale,
        op.get("beta"),
        axis=rank - len(axes),
        epsilon=op.view.real("epsilon", 1e-5),
    )
    return op.transpose(result, [perm.index(axis) for axis in range(rank)])


def _normalizing_work(view: OpView) -> Work:
    """Per element: two additions for the moments, a difference, a square, a product; gamma and beta."""
    flops = 5 + view.has("gamma") + view.has("beta")
    return moved(view, flops * (view.output_type().elements or 0))


def _local_response_norm(op: Lowering) -> Tensor:
    x, shape, size = op["x"], op.view.static_shape("x"), op.view.integer("size")
    alpha, beta = op.view.real("alpha", 1e-4), op.view.real("beta", 0.75)
    bias = op.view.real("k", 1.0)
    if len(shape) < 3 or size < 1:
        raise CannotInfer(f"a window of {size} over a tensor of rank {len(shape)}")
    if len(shape) == 4 and size % 2:
        return op.emit("LRN", x, size=size, alpha=alpha, beta=beta, bias=bias)
    # ONNX Runtime refuses windows of even size and other ranks. Core ML takes three axes as [C, H, W].
    channel = 0 if len(shape) == 3 else 1
    folded = (math.prod(shape[:channel]), 1, shape[channel], math.prod(shape[channel + 1 :]))
    squares = op.reshape(op.emit("Mul", x, x), folded)
    mean = op.emit(
        "AveragePool",
        squares,
        kernel_shape=[size, 1],
        pads=[size // 2, 0, (size - 1) // 2, 0],
        count_include_pad=1,
    )
    scaled = op.emit("Add", op.emit("Mul", mean, op.like(alpha, x)), op.like(bias, x))
    power = op.reshape(op.emit("Pow", scaled, op.like(beta, x)), shape)
    return op.emit("Div", x, power)


def _local_response_work(view: OpView) -> Work:
    """Per element: a square, `size` additions, a product, a sum, a power and a quotient."""
    return moved(view, (view.integer("size") + 5) * (view.output_type().elements or 0))


def _row(
    name: str,
    traits: Trait,
    doc: str,
    lower: Callable[[Lowering], Tensor],
    work: Callable[[OpView], Work],
) -> OpSpec:
    return OpSpec(name=name, doc=doc, traits=traits, infer=same_as(), lower=lower, work=work)


OPS: tuple[OpSpec, ...] = (
    # Mean, variance, gamma and beta are one factor and one summand per channel.
    _row(
        "batch_norm",
        Trait.CHANNEL_SCALE,
        "Normalized by a known mean and variance per channel.",
        _batch_norm,
        per_element(2),
    ),
    _row(
        "instance_norm",
        Trait.MAP_NORMALIZATION,
        "Normalized by the mean and variance of each channel of each item.",
        _instance_norm,
        _normalizing_work,
    ),
    _row(
        "layer_norm",
        Trait.NORMALIZATION,
        "Normalized by mean and variance over some axes.",
        _layer_norm,
        _normalizing_work,
    ),
    # Per element: a square, an addition and a quotient.
    _row(
        "l2_norm",
        Trait.VECTOR_NORMALIZATION,
        "Divided by the root of the sum of squares of the last three axes.",
        _l2_norm,
        per_element(3),
    ),
    _row(
        "local_response_norm",
        Trait.VECTOR_NORMALIZATION,
        "Divided by a power of the squares of neighbouring channels.",
        _local_response_norm,
        _local_response_work,
    ),
)
