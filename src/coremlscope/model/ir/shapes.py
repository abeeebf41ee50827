"""Default shapes of features."""

from __future__ import annotations

from coremlscope.model.ir.model import (
    ArrayFeature,
    EnumeratedShapes,
    FeatureType,
    ImageFeature,
    RangeShapes,
    ShapeFlexibility,
    StateFeature,
)


def channels(image: ImageFeature) -> int:
    """Returns the number of channels of an image's tensor: 3 for colour, 1 for grey."""
    return 3 if image.color_space in ("RGB", "BGR") else 1


def default_shape(type_: FeatureType) -> tuple[int, ...] | None:
    """Returns the default tensor shape of a feature. Images are `[1, channels, height, width]`.

    Returns:
        The shape, or None if the file does not specify one or the feature is not a tensor.
    """
    match type_:
        case ImageFeature(_, width, height, flexibility):
            size = (height, width) if height and width else _first(flexibility)
            return None if size is None else (1, channels(type_), *size)
        case ArrayFeature(shape=shape, flexibility=flexibility):
            return shape or _first(flexibility)
        case StateFeature(array):
            return default_shape(array)
        case _:
            return None


def _first(flexibility: ShapeFlexibility | None) -> tuple[int, ...] | None:
    match flexibility:
        case EnumeratedShapes(shapes) if shapes:
            return shapes[0]
        case RangeShapes(bounds) if bounds:
            return tuple(max(low, 1) for low, _ in bounds)
        case _:
            return None
