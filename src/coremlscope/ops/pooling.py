"""Poolings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from coremlscope.base.arrays import np
from coremlscope.model.ir import Shape, TensorType, ValueType
from coremlscope.ops.emit import I64, Lowering, Tensor
from coremlscope.ops.spec import OpSpec, Work, moved
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView
from coremlscope.ops.window import Padding, Window, interleaved


def _window(view: OpView) -> tuple[Shape, Window]:
    shape = view.shape("x")
    if len(shape) < 3:
        raise CannotInfer(f"a tensor of rank {len(shape)} has no spatial axes")
    return shape, Window.of(view, view.integers("kernel_sizes"), view.flag("ceil_mode", False))


def _infer(view: OpView) -> Sequence[ValueType]:
    shape, window = _window(view)
    return [TensorType(view.type("x").dtype, (*shape[:2], *window.output(shape[2:])))]


def _overhang(window: Window, spatial: Shape, pads: Sequence[Padding]) -> list[int]:
    """How far the last window extends beyond data and padding along each axis, with `ceil_mode` only."""
    if not window.ceil_mode:
        return [0] * len(pads)
    over = []
    for axis, (size, count) in enumerate(zip(spatial, window.output(spatial), strict=True)):
        if size is None or count is None:
            raise CannotLower("`ceil_mode` with a size that is not known before run time")
        reach = (count - 1) * window.strides[axis] + window.extent(axis)
        over.append(max(reach - size - sum(pads[axis]), 0))
    return over


def _pad(op: Lowering, x: Tensor, pads: Sequence[Padding], value: float) -> Tensor:
    both = [(0, 0), (0, 0), *pads]
    return op.emit("Pad", x, op.const(interleaved(both), I64), op.like(value, x))


def _pool(op: Lowering, onnx_op: str, filler: float, counts_padding: bool | None = None) -> Tensor:
    """Emits a pooling.

    Args:
        op: The operation.
        onnx_op: The ONNX operator.
        filler: The value of padded elements.
        counts_padding: For averages: whether padding counts as elements.
    """
    shape, window = _window(op.view)
    x, spatial = op["x"], shape[2:]
    attributes = window.attributes(spatial)
    attributes["kernel_shape"] = list(window.kernel)
    include = None if counts_padding is None else int(counts_padding)
    if "auto_pad" in attributes:
        return op.emit(onnx_op, x, count_include_pad=include, **attributes)
    pads = window.paddings(spatial) or []
    # Core ML takes the overhang of the last window for padding (source: apple/coremltools issue 2772).
    over = _overhang(window, spatial, pads)
    pads = [(before, after + more) for (before, after), more in zip(pads, over, strict=True)]
    if any(max(pad) >= size for pad, size in zip(pads, window.kernel, strict=True)):
        if counts_padding is False:
            raise CannotLower("averages over windows that contain only padding")
        # ONNX Runtime requires padding narrower than the window.
        x, pads = _pad(op, x, pads, filler), [(0, 0)] * len(pads)
    if any(map(any, pads)):
        attributes["pads"] = interleaved(pads)
    else:
        # In this form ONNX Runtime does not merge a Pad into this node. It would even merge one that is too
        # wide for the window, and then reject the graph.
        del attributes["pads"]
        attributes["auto_pad"] = "VALID" if op.emitter.maker(x) == "Pad" else None
        include = None
    return op.emit(onnx_op, x, count_include_pad=include, **attributes)


def _lower_average(op: Lowering) -> Tensor:
    excludes = op.view.flag("exclude_padding_from_average", False)
    return _pool(op, "AveragePool", 0.0, counts_padding=not excludes)


def _lower_max(op: Lowering) -> Tensor:
    return _pool(op, "MaxPool", -np.inf)


def _lower_l2(op: Lowering) -> Tensor:
    return _pool(op, "LpPool", 0.0)


def _work(flops: int) -> Callable[[OpView], Work]:
    """`flops` operations per element of each window."""

    def work(view: OpView) -> Work:
        size = math.prod(view.integers("kernel_sizes"))
        return moved(view, flops * size * (view.output_type().elements or 0))

    return work


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="avg_pool",
        doc="The mean of each window.",
        traits=Trait.POOLING,
        infer=_infer,
        lower=_lower_average,
        work=_work(1),
    ),
    OpSpec(
        name="max_pool",
        doc="The largest element of each window.",
        traits=Trait.POOLING,
        infer=_infer,
        lower=_lower_max,
        work=_work(1),
    ),
    OpSpec(
        name="l2_pool",
        doc="The root of the sum of squares of each window.",
        traits=Trait.POOLING,
        infer=_infer,
        lower=_lower_l2,
        work=_work(2),
    ),
)
