from __future__ import annotations

import pytest

from coremlscope.base.errors import InputError
from coremlscope.model.features import bind_shapes, check_shape, default_shape, describe_feature
from coremlscope.model.features.description import describe_flexibility
from coremlscope.model.ir import (
    ArrayFeature,
    DictionaryFeature,
    DType,
    EnumeratedShapes,
    Feature,
    FunctionDescription,
    ImageFeature,
    Int64Feature,
    RangeShapes,
    SequenceFeature,
    StateFeature,
)

FIXED = Feature("x", ArrayFeature(dtype=DType.FP16, shape=(1, 3, 8, 8)))
RANGE = Feature(
    "x", ArrayFeature(dtype=DType.FP32, shape=(1, 16), flexibility=RangeShapes(((1, 1), (4, -1))))
)
LISTED = Feature(
    "x", ArrayFeature(dtype=DType.INT32, shape=(1, 8), flexibility=EnumeratedShapes(((1, 8), (1, 32, 2))))
)
IMAGE = Feature("pic", ImageFeature("RGB", 6, 4, RangeShapes(((4, 8), (6, 12)))))


def test_default_shapes() -> None:
    assert default_shape(FIXED.type) == (1, 3, 8, 8)
    assert default_shape(IMAGE.type) == (1, 3, 4, 6)
    assert default_shape(ImageFeature("GRAYSCALE", 6, 4)) == (1, 1, 4, 6)
    assert default_shape(
        ArrayFeature(dtype=DType.FP32, shape=(), flexibility=RangeShapes(((0, 3), (2, 5))))
    ) == (1, 2)
    assert default_shape(
        ArrayFeature(dtype=DType.FP32, shape=(), flexibility=EnumeratedShapes(((7,), (8,))))
    ) == (7,)
    assert default_shape(ArrayFeature(dtype=DType.FP32, shape=())) is None
    assert default_shape(StateFeature(ArrayFeature(dtype=DType.FP16, shape=(2, 2)))) == (2, 2)
    assert default_shape(Int64Feature()) is None


@pytest.mark.parametrize(
    ("feature", "shape", "expected"),
    [
        (FIXED, (1, 3, 8, 8), (1, 3, 8, 8)),
        (RANGE, (1, 4), (1, 4)),
        (RANGE, (1, 4000), (1, 4000)),
        (LISTED, (1, 32, 2), (1, 32, 2)),
        (IMAGE, (8, 12), (1, 3, 8, 12)),
        (IMAGE, (1, 3, 8, 12), (1, 3, 8, 12)),
    ],
)
def test_allowed_shapes(feature: Feature, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert check_shape(feature, shape) == expected


@pytest.mark.parametrize(
    ("feature", "shape", "message", "hint"),
    [
        (FIXED, (1, 3, 8, 9), "'x' has the fixed shape 1×3×8×8, not 1×3×8×9", "cannot be changed"),
        (RANGE, (1, 3), "'x' does not allow the shape 1×3", "allowed: 1×(4…∞)"),
        (RANGE, (4,), "'x' does not allow the shape 4", "allowed: 1×(4…∞)"),
        (LISTED, (1, 9), "'x' does not allow the shape 1×9", "allowed: 1×8 or 1×32×2"),
        (IMAGE, (3, 12), "'pic' does not allow the shape 3×12", "allowed: (4…8)×(6…12)"),
        (IMAGE, (1, 4, 8, 8), "invalid shape 1×4×8×8 for the image 'pic'", "1x3x height x width"),
        (Feature("n", Int64Feature()), (1,), "the input 'n' has no shape", "only arrays and images"),
    ],
)
def test_shapes_that_are_not_allowed(
    feature: Feature, shape: tuple[int, ...], message: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_shape(feature, shape)
    assert caught.value.message == message
    assert hint in caught.value.hint


def test_bind_shapes() -> None:
    state = Feature("cache", StateFeature(ArrayFeature(dtype=DType.FP16, shape=(1, 4))))
    free = Feature("free", ArrayFeature(dtype=DType.FP32, shape=()))
    description = FunctionDescription(inputs=(RANGE, IMAGE, free), outputs=(), states=(state,))
    assert bind_shapes(description) == {"x": (1, 16), "pic": (1, 3, 4, 6), "cache": (1, 4)}
    asked = bind_shapes(description, {"pic": (8, 8), "free": (2,)})
    assert asked == {"x": (1, 16), "pic": (1, 3, 8, 8), "free": (2,), "cache": (1, 4)}
    with pytest.raises(InputError) as caught:
        bind_shapes(description, {"pick": (8, 8)})
    assert (caught.value.message, caught.value.hint) == (
        "the model has no input 'pick'",
        "did you mean 'pic'?",
    )


def test_descriptions() -> None:
    assert describe_feature(FIXED.type) == "float16 1×3×8×8"
    assert describe_feature(IMAGE.type) == "image RGB 6×4"
    assert describe_feature(ImageFeature("GRAYSCALE_FLOAT16", 2, 2)) == "image grayscale float16 2×2"
    assert describe_feature(DictionaryFeature("int64")) == "dictionary int64 → double"
    assert describe_feature(SequenceFeature("string")) == "sequence of string, length any"
    assert describe_feature(SequenceFeature("int64", (1, -1))) == "sequence of int64, length 1…∞"
    assert describe_feature(StateFeature(ArrayFeature(dtype=DType.FP16, shape=(2,)))) == "state float16 2"
    many = EnumeratedShapes(tuple((n,) for n in range(1, 8)))
    assert describe_flexibility(many) == "1 or 2 or 3 or 4 or 3 more"
