"""Resizing of images, and rearrangement between space and channels."""

from __future__ import annotations

from typing import Any

from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.formats.neuralnetwork.images import SAMPLING

_NEAREST, _BILINEAR = 0, 1


def _upsample(t: Translation) -> Blob:
    b, layer, x = t.builder, t.layer, t.x
    prefix = "fractional_" if layer.flag("use_fractional_scale_factors") else ""
    height, width = (float(layer.number(f"{prefix}scaling_factor_{axis}", 1)) for axis in "yx")
    if height <= 0 or width <= 0:
        raise CannotTranslate(f"its scales {height:g} and {width:g} are not positive")
    factors: dict[str, Any] = {"scale_factor_height": height, "scale_factor_width": width}
    match layer.integer("mode", _NEAREST):
        case 0:
            result = b.op("upsample_nearest_neighbor", x=b.images(x), **factors)
        case 1:
            is_aligned = layer.flag("align_corners")
            if layer.flag("is_legacy_mode"):
                t.doubt("the sampling points of its legacy mode are not established")
            result = b.op(
                "upsample_bilinear",
                x=b.images(x),
                align_corners=is_aligned,
                half_pixel_centers=not is_aligned,
                **factors,
            )
        case mode:
            raise CannotTranslate(f"the meaning of its mode {mode} is unknown")
    return b.like(result, x)


def _crop_and_resize(t: Translation) -> Blob:
    """Resizes an image. Crops of boxes have a second input."""
    b, layer, x = t.builder, t.layer, t.x
    if len(t.inputs) > 1:
        raise CannotTranslate("the layout of its boxes is unknown")
    if layer.integer("mode", _BILINEAR) != _BILINEAR:
        raise CannotTranslate(f"the meaning of its mode {layer.integer('mode')} is unknown")
    sampling = layer.choice("grid_sampling_mode", dict(enumerate(SAMPLING)), 0)
    result = b.op(
        "resize_bilinear",
        x=b.images(x),
        target_size_height=layer.size("target_size_h"),
        target_size_width=layer.size("target_size_w"),
        sampling_mode=sampling,
    )
    return b.like(result, x)


def _space_to_depth(t: Translation) -> Blob:
    b, layer = t.builder, t.layer
    block: dict[str, Any] = {"block_size": layer.size("block_size")}
    match layer.flag("reverse"), layer.flag("pixel_shuffle"):
        case False, False:
            type_ = "space_to_depth"
        case True, False:
            type_ = "depth_to_space"
        case True, True:
            type_, block = "pixel_shuffle", {"upscale_factor": layer.size("block_size")}
        case _:
            raise CannotTranslate("the order of its channels is unknown")
    return b.like(b.op(type_, x=b.images(t.x), **block), t.x)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("crop_and_resize", _crop_and_resize, inputs=(1, 2)),
    LayerSpec("space_to_depth", _space_to_depth),
    LayerSpec("upsample", _upsample),
)
