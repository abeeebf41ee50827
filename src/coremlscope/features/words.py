"""Feature types in words: `float16 1×3×224×224`, `image RGB 224×224`."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.ir import (
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

__all__ = ["describe_feature", "describe_flexibility", "describe_shape", "dtype_name"]

#: Enumerated shapes that are spelled out; the rest is counted.
_LISTED_SHAPES = 4

_DTYPE_NAMES = {DType.FP16: "float16", DType.FP32: "float32", DType.FP64: "float64"}


def dtype_name(dtype: DType) -> str:
    """An element type as NumPy users call it: `float16`, `int32`."""
    return _DTYPE_NAMES.get(dtype, dtype.value)


def describe_shape(shape: Sequence[int | None]) -> str:
    """A shape for people: `1×3×?×224`; `scalar` for no dimensions."""
    return "×".join("?" if size is None else str(size) for size in shape) or "scalar"


def describe_flexibility(flexibility: ShapeFlexibility) -> str:
    """The shapes that a flexible feature takes: `1×(1…128)×64`, `1×64 or 1×128`."""
    match flexibility:
        case EnumeratedShapes(shapes):
            listed = [describe_shape(shape) for shape in shapes[:_LISTED_SHAPES]]
            rest = len(shapes) - len(listed)
            return " or ".join(listed) + (f" or {rest} more" if rest else "")
        case RangeShapes(bounds):
            return "×".join(_describe_bounds(low, high) for low, high in bounds)


def _describe_bounds(low: int, high: int) -> str:
    return str(low) if low == high else f"({low}…{'∞' if high < 0 else high})"


def describe_feature(type_: FeatureType) -> str:
    """A feature's type in one line, without its flexibility. Images are given as width × height."""
    match type_:
        case ArrayFeature(dtype=dtype, shape=shape):
            return f"{dtype_name(dtype)} {describe_shape(shape) if shape else 'of no stated shape'}"
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
            size = (
                "of any length" if (low, high) == (0, -1) else f"of {_describe_bounds(low, high).strip('()')}"
            )
            return f"sequence {size} {element}"
        case StateFeature(array):
            return f"state {describe_feature(array)}"
