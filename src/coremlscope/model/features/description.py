"""Descriptions of feature types: `float16 1×3×224×224`, `image RGB 224×224`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from coremlscope.model.ir import (
    ArrayFeature,
    DictionaryFeature,
    DoubleFeature,
    DType,
    EnumeratedShapes,
    FeatureType,
    ImageFeature,
    Int64Feature,
    RangeShapes,
    SequenceFeature,
    ShapeFlexibility,
    StateFeature,
    StringFeature,
)

#: Maximum number of enumerated shapes that are listed; the rest is counted.
_LISTED_SHAPES = 4

_DTYPE_NAMES = {DType.FP16: "float16", DType.FP32: "float32", DType.FP64: "float64"}


def dtype_name(dtype: DType) -> str:
    """Returns NumPy's name of an element type: `float16`, `int32`."""
    return _DTYPE_NAMES.get(dtype, dtype.value)


def describe_shape(shape: Sequence[int | None]) -> str:
    """Formats a shape: `1×3×?×224`; `scalar` for rank 0."""
    return "×".join("?" if size is None else str(size) for size in shape) or "scalar"


def describe_flexibility(flexibility: ShapeFlexibility) -> str:
    """Formats the allowed shapes of a flexible feature: `1×(1…128)×64`, `1×64 or 1×128`."""
    match flexibility:
        case EnumeratedShapes(shapes):
            listed = [describe_shape(shape) for shape in shapes[:_LISTED_SHAPES]]
            rest = len(shapes) - len(listed)
            return " or ".join(listed) + (f" or {rest} more" if rest else "")
        case RangeShapes(bounds):
            return "×".join(_describe_bounds(low, high) for low, high in bounds)


def _describe_bounds(low: int, high: int) -> str:
    return str(low) if low == high else f"({low}…{'∞' if high < 0 else high})"


@functools.lru_cache(maxsize=4096)
def describe_feature(type_: FeatureType) -> str:
    """Describes a feature's type in one line, without its flexibility. Images are width × height."""
    match type_:
        case ArrayFeature(dtype=dtype, shape=shape):
            return f"{dtype_name(dtype)} {describe_shape(shape) if shape else 'of unspecified shape'}"
        case ImageFeature(color_space, width, height):
            name = {"GRAYSCALE": "grayscale", "GRAYSCALE_FLOAT16": "grayscale float16"}
            return f"image {name.get(color_space, color_space)} {width}×{height}"
        case Int64Feature():
            return "int64"
        case DoubleFeature():
            return "double"
        case StringFeature():
            return "string"
        case DictionaryFeature(key):
            return f"dictionary {key} → double"
        case SequenceFeature(element, (low, high)):
            length = "any" if (low, high) == (0, -1) else _describe_bounds(low, high).strip("()")
            return f"sequence of {element}, length {length}"
        case StateFeature(array):
            return f"state {describe_feature(array)}"
