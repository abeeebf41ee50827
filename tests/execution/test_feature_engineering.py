"""Models that prepare features, from file to result."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope.errors import CorruptModelError, InputError, UnsupportedModelError
from coremlscope.execution.executable import compile_model
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    STRING,
    array_type,
    dictionary_type,
    model_spec,
    read_spec,
    sequence_type,
)

FP32, INT32 = 65568, 131104
NAN = math.nan


def _predict(kind: str, parameters: Any, input_: Any, output: Any, value: Any) -> Any:
    return coremlscope.predict(
        read_spec(model_spec(kind, parameters, {"x": input_}, {"y": output})), {"x": value}
    )["y"]


WORDS = {"stringCategories": {"vector": ["red", "green", "blue"]}}
NUMBERS = {"int64Categories": {"vector": [30, 10, 2**40]}}


class TestOneHotEncoder:
    @pytest.mark.parametrize(
        ("parameters", "input_", "value", "place"),
        [
            (WORDS, STRING, "blue", 2), (NUMBERS, INT64, 2**40, 2), (NUMBERS, DOUBLE, 10.0, 1),
            (NUMBERS, array_type(1), [30], 0),
        ],
    )  # fmt: skip
    def test_categories(self, parameters: Any, input_: Any, value: Any, place: int) -> None:
        result = _predict("oneHotEncoder", parameters, input_, array_type(3), value)
        np.testing.assert_array_equal(result, np.eye(3)[place])

    @pytest.mark.parametrize(
        ("parameters", "input_", "value"), [(WORDS, STRING, "bleu"), (NUMBERS, INT64, 11)]
    )
    def test_unknown_ones(self, parameters: Any, input_: Any, value: Any) -> None:
        with pytest.raises(InputError, match=r"does not know the category .* of the input 'x'"):
            _predict("oneHotEncoder", parameters, input_, array_type(3), value)
        ignored = _predict("oneHotEncoder", {**parameters, "handleUnknown": 1}, input_, array_type(3), value)
        np.testing.assert_array_equal(ignored, [0, 0, 0])

    def test_an_error_names_the_nearest_one(self) -> None:
        with pytest.raises(InputError) as raised:
            _predict("oneHotEncoder", WORDS, STRING, array_type(3), "grene")
        assert raised.value.hint == "did you mean 'green'?"

    def test_dictionaries(self) -> None:
        sparse = {**WORDS, "outputSparse": True, "handleUnknown": 1}
        assert _predict("oneHotEncoder", sparse, STRING, dictionary_type("int64"), "blue") == {2: 1.0}
        assert _predict("oneHotEncoder", sparse, STRING, dictionary_type("string"), "blue") == {"blue": 1.0}
        assert _predict("oneHotEncoder", sparse, STRING, dictionary_type("int64"), "pink") == {}


class TestImputer:
    @pytest.mark.parametrize(
        ("parameters", "type_", "value", "expected"),
        [
            ({"imputedDoubleValue": 1.5}, DOUBLE, NAN, 1.5), ({"imputedDoubleValue": 1.5}, DOUBLE, 0.0, 0.0),
            ({"imputedDoubleValue": 1.5, "replaceDoubleValue": NAN}, DOUBLE, NAN, 1.5),
            ({"imputedDoubleValue": 1.5, "replaceDoubleValue": -1}, DOUBLE, -1, 1.5),
            ({"imputedInt64Value": 2**60, "replaceInt64Value": 0}, INT64, 0, 2**60),
            ({"imputedInt64Value": 5, "replaceInt64Value": 0}, INT64, 2**60, 2**60),
            ({"imputedStringValue": "?", "replaceStringValue": "n/a"}, STRING, "n/a", "?"),
            ({"imputedStringValue": "?", "replaceStringValue": "n/a"}, STRING, "word", "word"),
            ({"imputedStringDictionary": {"map": [{"key": "a", "value": 1}, {"key": "b", "value": 2}]}},
             dictionary_type(), {"b": 7.0, "c": 3.0, "a": NAN}, {"b": 7.0, "c": 3.0, "a": 1.0}),
            ({"imputedInt64Dictionary": {"map": [{"key": 4, "value": 1}]}}, dictionary_type("int64"), {},
             {4: 1.0}),
        ],
    )  # fmt: skip
    def test_values(self, parameters: Any, type_: Any, value: Any, expected: Any) -> None:
        assert _predict("imputer", parameters, type_, type_, value) == expected

    @pytest.mark.parametrize(
        ("parameters", "dtype", "value", "expected"),
        [
            ({"imputedDoubleArray": {"vector": [1, 2, 3]}}, 65600, [NAN, 5, NAN], [1, 5, 3]),
            (
                {"imputedDoubleArray": {"vector": [1, 2, 3]}, "replaceDoubleValue": 9},
                FP32,
                [9, 5, 9],
                [1, 5, 3],
            ),
            ({"imputedDoubleValue": 0.5}, 65600, [NAN, 5, NAN], [0.5, 5, 0.5]),
            (
                {"imputedInt64Array": {"vector": [1, 2, 3]}, "replaceInt64Value": -1},
                INT32,
                [4, -1, -1],
                [4, 2, 3],
            ),
        ],
    )
    def test_arrays(self, parameters: Any, dtype: int, value: Any, expected: Any) -> None:
        type_ = array_type(3, dtype=dtype)
        np.testing.assert_array_equal(_predict("imputer", parameters, type_, type_, value), expected)

    @pytest.mark.parametrize(
        ("parameters", "type_", "expected"),
        [
            ({"imputedStringValue": "none"}, STRING, "none"),
            ({"imputedInt64Value": 3}, INT64, 3),
            ({"imputedStringDictionary": {"map": [{"key": "a", "value": 1}]}}, dictionary_type(), {"a": 1.0}),
        ],
    )
    def test_absent_inputs(self, parameters: Any, type_: Any, expected: Any) -> None:
        spec = model_spec("imputer", parameters, {"x": type_}, {"y": type_}, optional=["x"])
        assert coremlscope.predict(read_spec(spec), {}) == {"y": expected}

    def test_values_that_do_not_fit(self) -> None:
        with pytest.raises(CorruptModelError, match="has 2 values for the input 'x', which holds 3"):
            _predict(
                "imputer", {"imputedDoubleArray": {"vector": [1, 2]}}, array_type(3), array_type(3), [1, 2, 3]
            )


X = [3.0, -4.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "parameters", "expected"),
    [
        ("scaler", {"shiftValue": [1, 2, 3], "scaleValue": [0.5, 2, -1]}, [2, -4, -3]),
        ("scaler", {"shiftValue": [1], "scaleValue": [0.5]}, [2, -1.5, 0.5]),
        ("scaler", {"scaleValue": [1, 2, 3]}, [3, -8, 0]),
        ("normalizer", {"normType": 0}, [0.75, -1, 0]),
        ("normalizer", {"normType": 1}, [3 / 7, -4 / 7, 0]),
        ("normalizer", {"normType": 2}, [0.6, -0.8, 0]),
        ("identity", {}, X),
    ],
)
def test_arrays(kind: str, parameters: Any, expected: Any) -> None:
    np.testing.assert_allclose(
        _predict(kind, parameters, array_type(3), array_type(3), X), expected, rtol=1e-15
    )


@pytest.mark.parametrize("norm", [0, 1, 2])
def test_zeros_stay_zeros(norm: int) -> None:
    result = _predict("normalizer", {"normType": norm}, array_type(2), array_type(2), [0, 0])
    np.testing.assert_array_equal(result, [0, 0])


KEYS = {"stringToIndex": {"vector": ["b", "a", "c"]}}


class TestDictVectorizer:
    def test_order_absence_and_unknown_keys(self) -> None:
        result = _predict("dictVectorizer", KEYS, dictionary_type(), array_type(3), {"a": 2, "z": 9, "b": -1})
        np.testing.assert_array_equal(result, [-1, 2, 0])
        np.testing.assert_array_equal(
            _predict("dictVectorizer", KEYS, dictionary_type(), array_type(3), {}), [0, 0, 0]
        )

    def test_integers_whatever_the_description_says(self) -> None:
        keys = {"int64ToIndex": {"vector": [5, -3]}}
        result = _predict("dictVectorizer", keys, dictionary_type("string"), array_type(2), {-3: 1.5})
        np.testing.assert_array_equal(result, [0, 1.5])

    def test_sparse_results(self) -> None:
        result = _predict(
            "dictVectorizer", KEYS, dictionary_type(), dictionary_type("int64"), {"c": 4, "z": 1, "b": 2}
        )
        assert result == {2: 4.0, 0: 2.0}


def test_feature_vectorizer() -> None:
    inputs = {"n": INT64, "a": array_type(2, 2, dtype=FP32), "s": dictionary_type("int64"), "d": DOUBLE}
    columns = [("s", 3), ("d", 1), ("a", 4), ("n", 1)]
    parameters = {"inputList": [{"inputColumn": name, "inputDimensions": size} for name, size in columns]}
    model = read_spec(model_spec("featureVectorizer", parameters, inputs, {"y": array_type(9)}))
    given = {"n": 7, "a": [[1, 2], [3, 4]], "s": {2: 0.5}, "d": -1}
    np.testing.assert_array_equal(coremlscope.predict(model, given)["y"], [0, 0, 0.5, -1, 1, 2, 3, 4, 7])


TO_NUMBERS = {"stringToInt64Map": {"map": [{"key": "a", "value": 5}, {"key": "b", "value": -(2**50)}]}}
TO_WORDS = {"int64ToStringMap": {"map": [{"key": 5, "value": "five"}, {"key": -1, "value": "less"}]}}


class TestCategoricalMapping:
    def test_both_ways(self) -> None:
        assert _predict("categoricalMapping", TO_NUMBERS, STRING, INT64, "b") == -(2**50)
        assert _predict("categoricalMapping", TO_WORDS, INT64, STRING, -1) == "less"

    def test_defaults(self) -> None:
        assert _predict("categoricalMapping", {**TO_NUMBERS, "int64Value": 9}, STRING, INT64, "z") == 9
        assert _predict("categoricalMapping", {**TO_WORDS, "strValue": "?"}, INT64, STRING, 0) == "?"

    def test_unknown_ones_without_a_default(self) -> None:
        for parameters, in_, out, value in (
            (TO_NUMBERS, STRING, INT64, "z"),
            (TO_WORDS, INT64, STRING, 0),
        ):
            with pytest.raises(InputError, match="does not know the category"):
                _predict("categoricalMapping", parameters, in_, out, value)


class TestArrayFeatureExtractor:
    def test_elements(self) -> None:
        parameters = {"extractIndex": [3, 0, 3]}
        result = _predict(
            "arrayFeatureExtractor", parameters, array_type(2, 2), array_type(3), [[1, 2], [3, 4]]
        )
        np.testing.assert_array_equal(result, [4, 1, 4])

    def test_single_ones(self) -> None:
        assert (
            _predict("arrayFeatureExtractor", {"extractIndex": [1]}, array_type(2), DOUBLE, [1, 2.5]) == 2.5
        )
        result = _predict("arrayFeatureExtractor", {"extractIndex": [1]}, array_type(2), INT64, [1, 2.0])
        assert (result, type(result)) == (2, int)

    def test_elements_that_are_not_there(self) -> None:
        with pytest.raises(CorruptModelError, match="extracts the element 2, but its input holds 2"):
            _predict("arrayFeatureExtractor", {"extractIndex": [2]}, array_type(2), DOUBLE, [1, 2])


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (DOUBLE, 0.1), (INT64, 2**62), (STRING, "naïve"), (dictionary_type(), {"a": 1.0}),
        (dictionary_type("int64"), {}), (sequence_type(), ["a", "b"]), (sequence_type("int64"), [3, 2**50]),
    ],
)  # fmt: skip
def test_identity(type_: Any, value: Any) -> None:
    assert _predict("identity", {}, type_, type_, value) == value


def test_identity_of_several_features_by_name() -> None:
    model = read_spec(model_spec("identity", {}, {"a": DOUBLE, "b": STRING}, {"b": STRING, "a": DOUBLE}))
    assert coremlscope.predict(model, {"a": 1, "b": "x"}) == {"a": 1.0, "b": "x"}


@pytest.mark.parametrize(
    ("kind", "parameters", "input_", "output", "sentence"),
    [
        ("scaler", {"shiftValue": [1, 2]}, array_type(3), array_type(3), "takes 2 numbers"),
        ("scaler", {"shiftValue": [1]}, STRING, array_type(1), "with string as the input"),
        ("normalizer", {}, array_type(3), STRING, "does not give what it is described"),
        ("dictVectorizer", KEYS, array_type(3), array_type(3), "takes a dictionary"),
        ("dictVectorizer", KEYS, dictionary_type(), array_type(2), "gives 3 numbers"),
    ],
)
def test_features_that_do_not_fit(
    kind: str, parameters: Any, input_: Any, output: Any, sentence: str, tmp_path: Path
) -> None:
    model = read_spec(model_spec(kind, parameters, {"x": input_}, {"y": output}))
    with pytest.raises((CorruptModelError, UnsupportedModelError), match=sentence):
        compile_model(model, tmp_path)
