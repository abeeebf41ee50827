"""Convolutions and transposed convolutions over two and three spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.weights import read_weights
from coremlscope.model.ir import Constant
from coremlscope.model.schema import Message

#: MIL's names for `PaddingType` of layers with three spatial axes.
_PADDING_3D = ("custom", "valid", "same")


def sizes(given: Sequence[int], default: int, count: int = 2) -> list[int]:
    """Returns one size per spatial axis, or defaults if no sizes are set.

    Raises:
        CannotTranslate: The number of sizes differs from the number of axes.
    """
    listed = [int(size) for size in given] or [default] * count
    if len(listed) != count:
        raise CannotTranslate(f"it has {len(listed)} sizes for {count} spatial axes")
    return listed


def flat_padding(borders: Message) -> list[int]:
    """Converts `BorderAmounts` to top, bottom, left, right; zeros if they are not set.

    Raises:
        CannotTranslate: There are borders of more or fewer than two axes.
    """
    edges = [(int(edge.startEdgeSize), int(edge.endEdgeSize)) for edge in borders.borderAmounts]
    if len(edges) not in (0, 2):
        raise CannotTranslate(f"it has borders for {len(edges)} axes instead of 2")
    return [size for edge in edges for size in edge] or [0, 0, 0, 0]


def _convolution(t: Translation) -> Blob:
    b, p, x = t.builder, t.params, t.x
    padding: dict[str, Any] = {"pad_type": "custom", "pad": flat_padding(p.valid.paddingAmounts)}
    if p.WhichOneof("ConvolutionPaddingType") == "same":
        padding = {"pad_type": "same_lower" if p.same.asymmetryMode else "same"}
    window: dict[str, Any] = {
        "strides": sizes(p.stride, 1),
        "groups": int(p.nGroups) or 1,
        "bias": read_weights(p.bias, (int(p.outputChannels),)) if p.hasBias else None,
        # Apple's schema says that deconvolutions ignore it, but coremltools' tests of Core ML expect it.
        "dilations": sizes(p.dilationFactor, 1),
        **padding,
    }
    images = b.images(x)
    if p.isDeconvolution:
        return b.like(_deconvolution(b, images, _weight(t), sizes(p.outputShape, 0), window), x)
    return b.like(b.op("conv", x=images, weight=_weight(t), **window), x)


def _weight(t: Translation) -> Blob | Constant:
    """Returns the second input if there is one, or else the weights in the parameters."""
    p = t.params
    if len(t.inputs) > 1:
        return t.builder.images(t.inputs[1])
    kernel = sizes(p.kernelSize, 3)
    if p.isDeconvolution:
        groups = int(p.nGroups) or 1
        # The second axis has the output channels of one group, as have the quantisation parameters.
        shape = (int(p.kernelChannels), int(p.outputChannels) // groups, *kernel)
        return read_weights(p.weights, shape, channel_axis=1)
    return read_weights(p.weights, (int(p.outputChannels), int(p.kernelChannels), *kernel))


def _deconvolution(
    b: Builder, x: Blob, weight: Blob | Constant, spatial: Sequence[int], window: dict[str, Any]
) -> Blob:
    """Emits a transposed convolution. `spatial` is the result's size; zeros if the padding determines it."""
    shape: list[int] | None = None
    if any(spatial):
        channels = (weight.type.shape or (0, 0)) if isinstance(weight, Constant) else weight.shape  # type: ignore[union-attr]
        groups = window["groups"]
        assert isinstance(groups, int)
        shape = [x.shape[0], (channels[1] or 0) * groups, *spatial]
    return b.op("conv_transpose", x=x, weight=weight, output_shape=shape, **window)


def _convolution_3d(t: Translation) -> Blob:
    b, p = t.builder, t.params
    taken, given, groups = int(p.inputChannels), int(p.outputChannels), int(p.nGroups) or 1
    kernel = (int(p.kernelDepth), int(p.kernelHeight), int(p.kernelWidth))
    window: dict[str, Any] = {
        "strides": [p.strideDepth or 1, p.strideHeight or 1, p.strideWidth or 1],
        "groups": groups,
        "bias": read_weights(p.bias, (given,)) if p.hasBias else None,
        "dilations": [p.dilationDepth or 1, p.dilationHeight or 1, p.dilationWidth or 1],
        **padding_3d(p),
    }
    x = b.tensor(t.x)
    if p.isDeconvolution:
        weight = read_weights(p.weights, (taken, given // groups, *kernel), channel_axis=1)
        return _deconvolution(b, x, weight, sizes(p.outputShape, 0, 3), window)
    weight = read_weights(p.weights, (given, taken // groups, *kernel))
    return b.op("conv", x=x, weight=weight, **window)


def padding_3d(p: Message) -> dict[str, Any]:
    """Converts the padding of a window with three spatial axes to parameters of MIL's operations."""
    kind = _PADDING_3D[p.paddingType]
    if kind != "custom":
        return {"pad_type": kind}
    sides = ("Front", "Back", "Top", "Bottom", "Left", "Right")
    return {"pad_type": kind, "pad": [getattr(p, f"customPadding{side}") for side in sides]}


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("convolution", _convolution, inputs=(1, 2)),
    LayerSpec("convolution3d", _convolution_3d),
)
