"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

from coremlscope.formats.espresso.attributes import CompiledLayer
from coremlscope.formats.espresso.fused import apply_fused
from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.espresso.weights import has_weights, read_bias, read_weights
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.model.ir import Constant

#: `pad_mode`: explicit amounts, as much as keeps the size, none, or as much as keeps the size with more of it
#: at the top left. (Source: pairs of networks and their compiled forms; Turi Create writes the last one.)
_PADDING = {0: "custom", 1: "same", 2: "valid", 4: "same_lower"}


def window_padding(layer: CompiledLayer) -> dict[str, Any]:
    """Converts the padding of a window to parameters of MIL's operations.

    Raises:
        CannotTranslate: The padding is not with zeros.
    """
    if layer.integer("pad_fill_mode", 0) or layer.number("pad_value", 0):
        raise CannotTranslate("its padding is not with zeros")
    kind = layer.choice("pad_mode", _PADDING, 0)
    if kind != "custom":
        return {"pad_type": kind}
    amounts = [layer.integer(f"pad_{side}", 0) for side in "tblr"]
    if min(amounts) < 0:
        raise CannotTranslate(f"its padding {amounts} is negative")
    return {"pad_type": kind, "pad": amounts}


def _window(t: Translation) -> dict[str, Any]:
    layer = t.layer
    if layer.integer("n_parallel", 1) != 1:
        t.doubt("the meaning of its attribute n_parallel is not established")
    return {
        "strides": [layer.size("stride_y", 1), layer.size("stride_x", 1)],
        "dilations": [layer.size("dilation_y", 1), layer.size("dilation_x", 1)],
        "groups": layer.size("n_groups", 1),
        "bias": read_bias(t, layer.size("C")),
        **window_padding(layer),
    }


def _channels(layer: CompiledLayer) -> tuple[int, int, int]:
    """Returns the numbers of input channels, output channels and groups."""
    taken, given, groups = layer.size("K"), layer.size("C"), layer.size("n_groups", 1)
    if taken % groups or given % groups:
        raise CannotTranslate(f"its {taken} and {given} channels cannot be divided into {groups} groups")
    return taken, given, groups


def _kernel(layer: CompiledLayer) -> tuple[int, int]:
    return layer.size("Ny"), layer.size("Nx")


def _convolution(t: Translation) -> Blob:
    b, x = t.builder, t.x
    taken, given, groups = _channels(t.layer)
    weight: Blob | Constant
    if len(t.inputs) > 1 and not has_weights(t):
        weight = b.images(t.inputs[1])
    else:
        weight = read_weights(t, (given, taken // groups, *_kernel(t.layer)))
    result = b.op("conv", x=b.images(x), weight=weight, **_window(t))
    return apply_fused(t, b.like(result, x))


def _deconvolution(t: Translation) -> Blob:
    b, x = t.builder, t.x
    taken, given, groups = _channels(t.layer)
    weight = read_weights(t, (taken, given // groups, *_kernel(t.layer)))
    images = b.images(x)
    spatial = [t.layer.integer(f"deconv_out_{side}", 0) for side in ("height", "width")]
    shape = [images.shape[0], given, *spatial] if all(size > 0 for size in spatial) else None
    result = b.op("conv_transpose", x=images, weight=weight, output_shape=shape, **_window(t))
    return apply_fused(t, b.like(result, x))


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("convolution", _convolution, inputs=(1, 2)),
    LayerSpec("deconvolution", _deconvolution),
)
