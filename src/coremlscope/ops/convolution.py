"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from coremlscope.model.ir import Array, Constant, Derived, DType, Shape, TensorType, ValueType
from coremlscope.ops.emit import F32, I64, Lowering, Tensor
from coremlscope.ops.infer import first_known
from coremlscope.ops.spec import OpSpec, Work, moved
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView
from coremlscope.ops.window import Padding, Window, interleaved


def _shapes(view: OpView) -> tuple[Shape, Shape, Window]:
    """Shapes of `x` and `weight`, and the window."""
    x, weight = view.shape("x"), view.shape("weight")
    if len(x) != len(weight) or len(x) < 3:
        raise CannotInfer(f"weights of rank {len(weight)} for a tensor of rank {len(x)}")
    return x, weight, Window.of(view, view.static_shape("weight")[2:])


def _groups(view: OpView) -> int:
    groups = view.integer("groups", 1)
    if groups < 1:
        raise CannotInfer(f"a convolution in {groups} groups")
    return groups


def _infer_conv(view: OpView) -> Sequence[ValueType]:
    x, weight, window = _shapes(view)
    groups = _groups(view)
    if x[1] is not None and weight[1] is not None and x[1] != weight[1] * groups:
        raise CannotInfer(
            f"weights for {weight[1] * groups} channels in {groups} groups, but x has {x[1]} channels"
        )
    return [TensorType(view.type("x").dtype, (x[0], weight[0], *window.output(x[2:])))]


def _lower_conv(op: Lowering) -> Tensor:
    return _conv(op, op["weight"])


def _conv(op: Lowering, weight: Tensor) -> Tensor:
    x, _, window = _shapes(op.view)
    placed = window.attributes(x[2:])
    groups = _groups(op.view)
    return op.emit("Conv", op["x"], weight, op.get("bias"), group=groups, **placed)


def _conv_work(view: OpView) -> Work:
    """Two operations per weight of a result element, one for its bias."""
    per_element = 2 * math.prod(view.static_shape("weight")[1:]) + view.has("bias")
    return moved(view, per_element * (view.output_type().elements or 0))


def _lower_conv_quantized(op: Lowering) -> Tensor:
    kind = op.view.text("quantization_type")
    if kind != "linear":
        raise CannotLower(f"weights quantized as {kind!r}")
    shape = op.view.static_shape("weight")
    sources = [op.view.bound(name).constant for name in ("weight", "quant_scale", "quant_bias")]
    known = tuple(source for source in sources if source is not None)
    if len(known) != len(sources):
        raise CannotLower("quantized weights that are not known before run time")

    def compute() -> Array:
        weight, scale, bias = (constant.numpy().astype(F32) for constant in known)
        column = (-1, *[1] * (len(shape) - 1))
        unpacked: Array = weight * scale.reshape(column) + bias.reshape(column)
        return unpacked

    constant = Constant(TensorType(DType.FP32, shape), Derived(compute, known))
    return _conv(op, op.emitter.weight(constant, F32, f"{op.view.op.name}.weight"))


def _infer_transposed(view: OpView) -> Sequence[ValueType]:
    x, weight, window = _shapes(view)
    groups = _groups(view)
    if x[1] is not None and weight[0] is not None and x[1] != weight[0]:
        raise CannotInfer(f"weights for {weight[0]} channels, but x has {x[1]} channels")
    channels = None if weight[1] is None else weight[1] * groups
    element = view.type("x").dtype
    if view.has("output_shape"):
        given = view.integers("output_shape")
        if len(given) != len(x):
            raise CannotInfer(f"`output_shape` {given} of a tensor of rank {len(x)}")
        return [TensorType(element, (first_known(x[0], given[0]), channels, *given[2:]))]
    spatial = tuple(_grown(window, axis, size) for axis, size in enumerate(x[2:]))
    return [TensorType(element, (x[0], channels, *spatial))]


def _grown(window: Window, axis: int, size: int | None) -> int | None:
    """The result's size along an axis where it is not given."""
    if size is None:
        return None
    if window.pad_type.startswith("same"):
        return size * window.strides[axis]
    return (size - 1) * window.strides[axis] + window.extent(axis) - sum(window.custom[axis])


def _cropping(view: OpView, window: Window, spatial: Shape) -> list[Padding]:
    """How much of the full result is cut off before and after each axis; negative where it is extended."""
    given = view.integers("output_shape", [])[2:]
    cuts = []
    for axis, size in enumerate(spatial):
        before, after = window.custom[axis]
        if given:
            if size is None:
                raise CannotLower("`output_shape` over an input of a size that is not known before run time")
            total = (size - 1) * window.strides[axis] + window.extent(axis) - given[axis]
        elif window.pad_type.startswith("same"):
            total = window.extent(axis) - window.strides[axis]
        else:
            total = before + after
        if window.pad_type.startswith("same"):
            less = max(total, 0) // 2
            before = less if window.pad_type == "same" else max(total, 0) - less
        cuts.append((before, total - before))
    return cuts


def _lower_transposed(op: Lowering) -> Tensor:
    x, _, window = _shapes(op.view)
    cuts = _cropping(op.view, window, x[2:])
    # ONNX adds fewer elements than a stride behind the result; the rest is added by a Pad.
    grown = [max(-after, 0) for _, after in cuts]
    own = [min(extra, stride - 1) for extra, stride in zip(grown, window.strides, strict=True)]
    rest = [extra - part for extra, part in zip(grown, own, strict=True)]
    attributes: dict[str, Any] = {
        "group": _groups(op.view),
        "strides": list(window.strides),
        "dilations": list(window.dilations),
        "pads": interleaved([(before, max(after, 0)) for before, after in cuts]),
        "output_padding": own if any(own) else None,
    }
    bias = op.get("bias")
    if not any(rest):
        return op.emit("ConvTranspose", op["x"], op["weight"], bias, **attributes)
    result = op.emit("ConvTranspose", op["x"], op["weight"], **attributes)
    result = op.emit("Pad", result, op.const([0] * (len(x) + 2) + rest, I64))
    if bias is None:
        return result
    return op.emit("Add", result, op.unsqueeze(bias, range(1, len(x) - 1)))


def _transposed_work(view: OpView) -> Work:
    """Two operations per weight of an input element, one per result element for its bias."""
    flops = 2 * math.prod(view.static_shape("weight")[1:]) * (view.type("x").elements or 0)
    if view.has("bias"):
        flops += view.output_type().elements or 0
    return moved(view, flops)


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="conv",
        doc="A convolution over one to three spatial axes.",
        traits=Trait.CONVOLUTION,
        infer=_infer_conv,
        lower=_lower_conv,
        work=_conv_work,
    ),
    OpSpec(
        name="conv_quantized",
        doc="A convolution whose weights are 8-bit integers with a scale and an offset.",
        traits=Trait.CONVOLUTION,
        infer=_infer_conv,
        lower=_lower_conv_quantized,
        work=_conv_work,
    ),
    OpSpec(
        name="conv_transpose",
        doc="A transposed convolution: each input element spreads over a window of the result.",
        traits=Trait.CONVOLUTION | Trait.TRANSPOSED,
        infer=_infer_transposed,
        lower=_lower_transposed,
        work=_transposed_work,
    ),
)
