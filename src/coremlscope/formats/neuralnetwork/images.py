"""Resizing, padding and cropping of images, and rearrangement between space and channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate, Given
from coremlscope.formats.neuralnetwork.convolution import flat_padding, sizes
from coremlscope.formats.neuralnetwork.rank_5 import fold
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation

#: MIL's names for `SamplingMode.Method`.
SAMPLING = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS")
#: MIL's names for `BoxCoordinatesMode.Coordinates`.
_BOXES = (
    "CORNERS_HEIGHT_FIRST",
    "CORNERS_WIDTH_FIRST",
    "CENTER_SIZE_HEIGHT_FIRST",
    "CENTER_SIZE_WIDTH_FIRST",
)
#: `LinearUpsampleMode`: `align_corners` and `half_pixel_centers`.
_LINEAR_UPSAMPLE: tuple[tuple[bool, bool], ...] = ((False, False), (True, False), (False, True))
#: `ReorganizationType`: MIL's operation, and its parameter for the block size.
_REORGANIZATIONS = (
    ("space_to_depth", "block_size"),
    ("depth_to_space", "block_size"),
    ("pixel_shuffle", "upscale_factor"),
)


def _upsample(t: Translation) -> Blob:
    b, p, x = t.builder, t.params, t.x
    height, width = [float(f) for f in p.fractionalScalingFactor] or sizes(p.scalingFactor, 1)
    factors: dict[str, Any] = {"scale_factor_height": height, "scale_factor_width": width}
    if not p.mode:
        return b.like(b.op("upsample_nearest_neighbor", x=b.images(x), **factors), x)
    aligned, halves = _LINEAR_UPSAMPLE[p.linearUpsampleMode]
    result = b.op(
        "upsample_bilinear", x=b.images(x), align_corners=aligned, half_pixel_centers=halves, **factors
    )
    return b.like(result, x)


def _resize_bilinear(t: Translation) -> Blob:
    b, p, x = t.builder, t.params, t.x
    height, width = sizes(p.targetSize, 1)
    result = b.op(
        "resize_bilinear",
        x=b.images(x),
        target_size_height=height,
        target_size_width=width,
        sampling_mode=SAMPLING[p.mode.samplingMethod],
    )
    return b.like(result, x)


def _crop_resize(t: Translation) -> Blob:
    """Crops boxes, one per step of the second input's sequence, from the images of a batch."""
    b, p, (x, boxes) = t.builder, t.params, t.inputs
    height, width = sizes(p.targetSize, 1)
    result = b.op(
        "crop_resize",
        x=b.images(x),
        roi=b.tensor(boxes),
        target_height=height,
        target_width=width,
        normalized_coordinates=bool(p.normalizedCoordinates),
        spatial_scale=float(p.spatialScale) or 1.0,
        box_coordinate_mode=_BOXES[p.boxIndicesMode.boxMode],
        sampling_mode=SAMPLING[p.mode.samplingMethod],
    )
    return result if x.sequence is None else fold(b, result)


def _reorganize(t: Translation) -> Blob:
    type_, parameter = _REORGANIZATIONS[t.params.mode]
    block: dict[str, Any] = {parameter: int(t.params.blockSize)}
    return t.builder.like(t.builder.op(type_, x=t.builder.images(t.x), **block), t.x)


def _padding(t: Translation) -> Blob:
    b, p, x = t.builder, t.params, t.x
    kind = p.WhichOneof("PaddingType")
    mode = {"reflection": "reflect", "replication": "replicate"}.get(kind or "", "constant")
    amounts = flat_padding(p.paddingAmounts)
    result = b.op("pad", x=x, pad=amounts, mode=mode, constant_val=float(p.constant.value))
    return replace(result, sequence=x.sequence)


def _constant_pad(t: Translation) -> Blob:
    """Pads every axis by amounts or to a size, which may be the second input."""
    b, p, x = t.builder, t.params, t.builder.tensor(t.x)
    if len(t.inputs) == 1:
        amounts: Given = _up_to(x, p.padAmounts) if p.padToGivenOutputSizeMode else list(p.padAmounts)
    else:
        given = b.op("reshape", x=b.indices(b.tensor(t.inputs[1])), shape=(-1,))
        amounts = _up_to_at_run_time(b, x, given) if p.padToGivenOutputSizeMode else given
    return b.op("pad", x=x, pad=amounts, mode="constant", constant_val=float(p.value))


def _up_to(x: Blob, given: Sequence[int]) -> list[int]:
    """Returns the amounts that pad every axis to the given size, before or after it; 0 for a size of 0."""
    if len(given) != 2 * x.rank:
        raise CannotTranslate(f"it has {len(given)} sizes for {x.rank} axes")
    return [max(int(size) - x.shape[i // 2], 0) if size else 0 for i, size in enumerate(given)]


def _up_to_at_run_time(b: Builder, x: Blob, given: Blob) -> Blob:
    own = [size for size in x.shape for _ in range(2)]
    return b.op("maximum", x=b.op("sub", x=given, y=own), y=0)


def _crop(t: Translation) -> Blob:
    """Crops by amounts, or to the size of the second input at an offset."""
    b, p, x = t.builder, t.params, t.x
    if len(t.inputs) == 1:
        amounts = flat_padding(p.cropAmounts)
    else:
        before = sizes(p.offset, 0)
        given, kept = x.shape[-2:], t.inputs[1].shape[-2:]
        after = [size - offset - part for size, offset, part in zip(given, before, kept, strict=True)]
        amounts = [before[0], after[0], before[1], after[1]]
    result = b.op("crop", x=x, crop_height=amounts[:2], crop_width=amounts[2:])
    return replace(result, sequence=x.sequence)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("constantPad", _constant_pad, inputs=(1, 2)),
    LayerSpec("crop", _crop, inputs=(1, 2)),
    LayerSpec("cropResize", _crop_resize, inputs=(2, 2)),
    LayerSpec("padding", _padding),
    LayerSpec("reorganizeData", _reorganize),
    LayerSpec("resizeBilinear", _resize_bilinear),
    LayerSpec("upsample", _upsample),
)
