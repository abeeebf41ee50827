"""Convolutions."""

from __future__ import annotations

from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.formats.neuralnetwork.layer import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.weights import read_weights

__all__ = ["LAYERS"]


def _convolution(t: Translation) -> Blob:
    b, p, x = t.builder, t.params, t.x
    if p.isDeconvolution:
        raise CannotTranslate("deconvolution")
    images = b.images(x)
    kernel = [int(k) for k in p.kernelSize] or [3, 3]
    groups = int(p.nGroups) or 1
    weight = read_weights(p.weights, (int(p.outputChannels), int(p.kernelChannels), *kernel))
    bias = read_weights(p.bias, (int(p.outputChannels),)) if p.hasBias else None
    if p.WhichOneof("ConvolutionPaddingType") == "same":
        pad_type = "same_lower" if p.same.asymmetryMode else "same"
        pad = [0, 0, 0, 0]
    else:
        pad_type = "custom"
        edges = [(int(e.startEdgeSize), int(e.endEdgeSize)) for e in p.valid.paddingAmounts.borderAmounts]
        pad = [size for edge in edges or [(0, 0), (0, 0)] for size in edge]
    result = b.op(
        "conv",
        x=images,
        weight=weight,
        bias=bias,
        strides=[int(s) for s in p.stride] or [1, 1],
        dilations=[int(d) for d in p.dilationFactor] or [1, 1],
        groups=groups,
        pad_type=pad_type,
        pad=pad,
    )
    return b.like(result, x)


LAYERS: tuple[LayerSpec, ...] = (LayerSpec("convolution", _convolution),)
