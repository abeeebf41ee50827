"""Pooling."""

from __future__ import annotations

from typing import Any

from coremlscope.formats.espresso.convolution import window_padding
from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.builder import Blob

#: `avg_or_max`: the operation over windows, and over a whole image.
_TYPES = {0: "avg_pool", 1: "max_pool", 2: "l2_pool"}
_WHOLE = {"avg_pool": "reduce_mean", "max_pool": "reduce_max", "l2_pool": "reduce_l2_norm"}
#: `top_shape_style`: whether the last window may extend beyond the image.
_ROUNDING = {0: "floor", 2: "ceil"}


def _pool(t: Translation) -> Blob:
    b, layer, x = t.builder, t.layer, t.x
    type_ = layer.choice("avg_or_max", _TYPES)
    if layer.flag("is_global"):
        return b.like(b.op(_WHOLE[type_], x=b.images(x), axes=[2, 3], keep_dims=True), x)
    window: dict[str, Any] = {
        "kernel_sizes": [layer.size("size_y"), layer.size("size_x")],
        "strides": [layer.size("stride_y", 1), layer.size("stride_x", 1)],
        **window_padding(layer),
    }
    if type_ == "avg_pool":
        window["exclude_padding_from_average"] = layer.flag("average_count_exclude_padding")
    if window["pad_type"] == "custom" and layer.choice("top_shape_style", _ROUNDING, 0) == "ceil":
        window["ceil_mode"] = True
    return b.like(b.op(type_, x=b.images(x), **window), x)


LAYERS: tuple[LayerSpec, ...] = (LayerSpec("pool", _pool),)
