from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from coremlscope.base.errors import InputError
from coremlscope.model.features import from_tensors, to_tensors
from coremlscope.model.ir import (
    ArrayFeature,
    DictionaryFeature,
    DoubleFeature,
    DType,
    Feature,
    FeatureType,
    ImageFeature,
    Int64Feature,
    RangeShapes,
    SequenceFeature,
    StringFeature,
)


def convert(type_: FeatureType, value: Any, shape: tuple[int | None, ...] | None = None) -> np.ndarray:
    shapes = None if shape is None else {"x": shape}
    return to_tensors([Feature("x", type_)], {"x": value}, shapes)["x"]


def error_of(type_: FeatureType, value: Any, shape: tuple[int | None, ...] | None = None) -> str:
    with pytest.raises(InputError) as caught:
        convert(type_, value, shape)
    return caught.value.message


def array(dtype: DType, *shape: int) -> ArrayFeature:
    return ArrayFeature(dtype=dtype, shape=shape)


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        (DType.FP32, [[1, 2.5]], np.float32([[1, 2.5]])),
        (DType.FP64, [[0.1, 1e300]], np.float64([[0.1, 1e300]])),
        # 0.1 is rounded to fp16, and 1e6 overflows as it does on the device.
        (DType.FP16, [[0.1, 1e6]], np.float32([[0.0999755859375, np.inf]])),
        # Floats for integers are truncated towards zero.
        (DType.INT32, np.float32([[1.9, -1.9]]), np.int32([[1, -1]])),
        (DType.INT8, [[127.9, -128]], np.int32([[127, -128]])),
        (DType.INT32, np.array([[True, False]]), np.int32([[1, 0]])),
        (DType.INT32, np.int64([[3, 4]]), np.int32([[3, 4]])),
    ],
)
def test_arrays(dtype: DType, given: Any, expected: np.ndarray) -> None:
    result = convert(array(dtype, 1, 2), given)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_rank_zero_and_one_are_interchangeable() -> None:
    assert convert(array(DType.FP32, 1), 2.0).shape == (1,)
    assert convert(array(DType.FP32, 1), np.float32([2.0]), ()).shape == ()


def test_invalid_arrays() -> None:
    fixed = array(DType.FP32, 1, 2)
    assert error_of(fixed, np.zeros((2, 1))) == "'x' has the fixed shape 1×2, not 2×1"
    assert (
        error_of(fixed, np.zeros((1, 3)), (1, None, 2))
        == "the input 'x' has the shape 1×?×2, but 1×3 was given"
    )
    assert error_of(fixed, "cat") == "the input 'x' takes float32 1×2, not str"
    assert error_of(fixed, np.array(["a", "b"])) == "the input 'x' takes float32 1×2, not an array of <U1"
    assert error_of(fixed, [[1, 2], [3]]) == "the input 'x' takes float32 1×2, but its rows differ in length"
    assert error_of(fixed, Image.new("L", (2, 1))) == "the input 'x' takes float32 1×2, not Image"
    assert error_of(array(DType.INT8, 1), [300]) == "the value 300 of the input 'x' is out of range for int8"
    assert (
        error_of(array(DType.INT32, 1), [np.nan])
        == "the value nan of the input 'x' is out of range for int32"
    )


def test_bound_shape_takes_precedence_over_allowed_shapes() -> None:
    flexible = ArrayFeature(dtype=DType.FP32, shape=(1, 4), flexibility=RangeShapes(((1, 1), (1, 9))))
    assert convert(flexible, np.zeros((1, 7))).shape == (1, 7)
    assert "has the shape 1×4" in error_of(flexible, np.zeros((1, 7)), (1, 4))


def test_missing_and_unknown_inputs() -> None:
    features = [Feature("tokens", array(DType.INT32, 4)), Feature("mask", array(DType.FP32, 4))]
    with pytest.raises(InputError) as caught:
        to_tensors(features, {})
    assert caught.value.message == "the inputs 'tokens' (int32 4), 'mask' (float32 4) are missing"
    with pytest.raises(InputError) as caught:
        to_tensors(features, {"token": [1]})
    assert caught.value.message == "the model has no input 'token'"
    assert caught.value.hint == "did you mean 'tokens'?"
    with pytest.raises(InputError) as caught:
        to_tensors(features, {"qqqqqqqq": [1]})
    assert caught.value.hint == "the inputs are: tokens, mask"


def test_many_missing_inputs() -> None:
    features = [Feature(f"a b{index}", DoubleFeature()) for index in range(1000)]
    with pytest.raises(InputError) as caught:
        to_tensors(features, {})
    assert caught.value.message.endswith("'a b5' (double), and 994 more are missing")
    assert caught.value.hint.endswith("--input 'a b0=VALUE'")


def test_missing_optional_inputs_get_their_default() -> None:
    features = [
        Feature("a", ArrayFeature(dtype=DType.FP16, shape=(2,), default=0.1), is_optional=True),
        Feature("b", array(DType.INT32, 2), is_optional=True),
        Feature("c", ImageFeature("RGB", 2, 1), is_optional=True),
        Feature("d", StringFeature(), is_optional=True),
        Feature("e", SequenceFeature("int64"), is_optional=True),
        Feature("f", Int64Feature(), is_optional=True),
        Feature("g", DictionaryFeature("string"), is_optional=True),
    ]
    tensors = to_tensors(features, {})
    np.testing.assert_array_equal(tensors["a"], np.float32([0.0999755859375] * 2))
    np.testing.assert_array_equal(tensors["b"], np.int32([0, 0]))
    np.testing.assert_array_equal(tensors["c"], np.zeros((1, 3, 1, 2), np.float32))
    assert [tensors[n].tolist() for n in "defg"] == [[""], [], [0], [{}]]


PIXELS = np.uint8([[[1, 2, 3], [4, 5, 6]]])


@pytest.mark.parametrize(
    ("space", "mode", "expected"),
    [
        ("RGB", "RGB", [[[[1, 4]], [[2, 5]], [[3, 6]]]]),
        ("RGB", "RGBA", [[[[1, 4]], [[2, 5]], [[3, 6]]]]),
        ("BGR", "RGB", [[[[3, 6]], [[2, 5]], [[1, 4]]]]),
    ],
)
def test_colour_images(space: str, mode: str, expected: list[Any]) -> None:
    result = convert(ImageFeature(space, 2, 1), Image.fromarray(PIXELS).convert(mode))
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, expected)


def test_grey_images() -> None:
    grey = Image.fromarray(np.uint8([[7, 250]]))
    np.testing.assert_array_equal(convert(ImageFeature("GRAYSCALE", 2, 1), grey), [[[[7, 250]]]])
    floats = Image.fromarray(np.float32([[0.1, 0.5]]))
    result = convert(ImageFeature("GRAYSCALE_FLOAT16", 2, 1), floats)
    np.testing.assert_array_equal(result, np.float32([[[[0.1, 0.5]]]]))
    # 16-bit grey is scaled, not clipped.
    deep = Image.fromarray(np.uint16([[257, 65535]]))
    np.testing.assert_array_equal(convert(ImageFeature("GRAYSCALE", 2, 1), deep), [[[[1, 255]]]])


def test_images_from_arrays() -> None:
    feature = ImageFeature("RGB", 2, 1)
    expected = [[[[1, 4]], [[2, 5]], [[3, 6]]]]
    np.testing.assert_array_equal(convert(feature, PIXELS), expected)
    message = error_of(feature, np.zeros((2, 2, 2, 2), np.uint8))
    assert message == "cannot convert a uint8 array of shape [2, 2, 2, 2] to the image 'x'"


def test_invalid_images() -> None:
    feature = ImageFeature("RGB", 4, 3)
    assert error_of(feature, "cat.png") == "the input 'x' takes image RGB 4×3, not str"
    assert error_of(feature, Image.new("RGB", (5, 3))) == "'x' has the fixed shape 3×4, not 3×5"
    message = error_of(feature, Image.new("RGB", (5, 3)), (1, 3, 3, 4))
    assert message == "the image 'x' is 4×3, but 5×3 was given"


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (Int64Feature(), 2**40, [2**40]),
        (Int64Feature(), np.float32(3.7), [3]),
        (DoubleFeature(), 1, [1.0]),
        (StringFeature(), "hello", ["hello"]),
        (SequenceFeature("int64"), [1, 2], [1, 2]),
        (SequenceFeature("string"), ["a"], ["a"]),
        (DictionaryFeature("string"), {"a": 1}, [{"a": 1.0}]),
        (DictionaryFeature("int64"), {np.int64(3): np.float32(1)}, [{3: 1.0}]),
        (DictionaryFeature("string"), {3: 1.0}, [{3: 1.0}]),
    ],
)
def test_other_types(type_: FeatureType, value: Any, expected: list[Any]) -> None:
    assert convert(type_, value).tolist() == expected


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Int64Feature(), "3"),
        (Int64Feature(), [1, 2]),
        (DoubleFeature(), None),
        (StringFeature(), 3),
        (SequenceFeature("int64"), ["a"]),
        (SequenceFeature("string"), "abc"),
        (DictionaryFeature("string"), {1: 1, "a": 1}),
        (DictionaryFeature("int64"), {1: "a"}),
        (DictionaryFeature("int64"), [1]),
    ],
)
def test_invalid_values_of_other_types(type_: FeatureType, value: Any) -> None:
    assert error_of(type_, value).startswith("the input 'x' takes ")


def test_limits_of_sequences_and_integers() -> None:
    assert "takes sequence of int64, length 1…2, not 3" in error_of(
        SequenceFeature("int64", (1, 2)), [1, 2, 3]
    )
    assert error_of(Int64Feature(), 1e30) == "the value 1e+30 of the input 'x' is out of range for int64"


def output(type_: FeatureType, tensor: Any, labels: tuple[str | int, ...] | None = None) -> Any:
    tables = None if labels is None else {"y": labels}
    return from_tensors([Feature("y", type_)], {"y": np.asarray(tensor)}, tables)["y"]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (DType.FP16, np.float32),
        (DType.FP32, np.float32),
        (DType.FP64, np.float64),
        (DType.INT32, np.int32),
        (DType.INT8, np.int8),
    ],
)
def test_output_arrays(dtype: DType, expected: Any) -> None:
    result = output(array(dtype), np.float32(3))
    assert (result.dtype, result.shape, result[0]) == (expected, (1,), 3)


def test_output_images() -> None:
    planes = np.float32([[[[1.4, 300]], [[-5, 2.6]], [[3, np.nan]]]])
    colour = output(ImageFeature("RGB", 2, 1), planes)
    assert (colour.mode, np.asarray(colour).tolist()) == ("RGBA", [[[1, 0, 3, 255], [255, 3, 0, 255]]])
    swapped = output(ImageFeature("BGR", 2, 1), planes)
    assert np.asarray(swapped).tolist() == [[[3, 0, 1, 255], [0, 3, 255, 255]]]
    grey = output(ImageFeature("GRAYSCALE", 2, 1), planes[:, :1])
    assert (grey.mode, np.asarray(grey).tolist()) == ("L", [[1, 255]])
    floats = output(ImageFeature("GRAYSCALE_FLOAT16", 2, 1), np.float32([[[0.5, 2.0]]]))
    assert (floats.mode, np.asarray(floats).tolist()) == ("F", [[0.5, 2.0]])


def test_classifier_outputs() -> None:
    labels = ("cat", "dog")
    assert output(StringFeature(), np.int32([1]), labels) == "dog"
    assert output(Int64Feature(), np.int32([0]), (10, 20)) == 10
    assert output(DictionaryFeature("string"), np.float32([[0.25, 0.75]]), labels) == {
        "cat": 0.25,
        "dog": 0.75,
    }


def test_other_outputs() -> None:
    assert output(Int64Feature(), np.int64([5])) == 5
    assert output(DoubleFeature(), np.float64([0.5])) == 0.5
    assert output(StringFeature(), np.array(["a"], dtype=object)) == "a"
    assert output(SequenceFeature("int64"), np.int64([1, 2])) == [1, 2]
