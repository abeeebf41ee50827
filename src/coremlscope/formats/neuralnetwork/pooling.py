"""Pooling over two and three spatial axes."""

from __future__ import annotations

from typing import Any

from coremlscope.formats.neuralnetwork.builder import Blob
from coremlscope.formats.neuralnetwork.convolution import flat_padding, padding_3d, sizes
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation
from coremlscope.model.schema import Message

#: `PoolingType`: the operation over windows, and over a whole image.
_TYPES = (("max_pool", "reduce_max"), ("avg_pool", "reduce_mean"), ("l2_pool", "reduce_l2_norm"))


def _pooling(t: Translation) -> Blob:
    b, p, x = t.builder, t.params, t.x
    over_windows, over_image = _TYPES[p.type]
    images = b.images(x)
    if p.globalPooling:
        return b.like(b.op(over_image, x=images, axes=[2, 3], keep_dims=True), x)
    window: dict[str, Any] = {
        "kernel_sizes": sizes(p.kernelSize, 3),
        "strides": sizes(p.stride, 1),
        **_padding(p),
    }
    if over_windows == "avg_pool":
        window["exclude_padding_from_average"] = bool(p.avgPoolExcludePadding)
    return b.like(b.op(over_windows, x=images, **window), x)


def _padding(p: Message) -> dict[str, Any]:
    match p.WhichOneof("PoolingPaddingType"):
        case "same":
            return {"pad_type": "same_lower" if p.same.asymmetryMode else "same"}
        case "includeLastPixel":
            height, width = sizes(p.includeLastPixel.paddingAmounts, 0)
            return {"pad_type": "custom", "pad": [height, height, width, width], "ceil_mode": True}
        case _:
            return {"pad_type": "custom", "pad": flat_padding(p.valid.paddingAmounts)}


def _pooling_3d(t: Translation) -> Blob:
    b, p = t.builder, t.params
    type_ = _TYPES[p.type][0]
    window: dict[str, Any] = {
        "kernel_sizes": [p.kernelDepth, p.kernelHeight, p.kernelWidth],
        "strides": [p.strideDepth or 1, p.strideHeight or 1, p.strideWidth or 1],
        **padding_3d(p),
    }
    if type_ == "avg_pool":
        window["exclude_padding_from_average"] = bool(p.countExcludePadding)
    return b.op(type_, x=b.tensor(t.x), **window)


def _global_pooling_3d(t: Translation) -> Blob:
    return t.builder.op(_TYPES[t.params.type][1], x=t.builder.tensor(t.x), axes=[-3, -2, -1], keep_dims=True)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("globalPooling3d", _global_pooling_3d),
    LayerSpec("pooling", _pooling),
    LayerSpec("pooling3d", _pooling_3d),
)
