"""Imputers, from file to result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import CorruptModelError
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    STRING,
    array_type,
    dictionary_type,
    model_spec,
    predict_value,
    read_parameters,
    read_spec,
)

FP32, INT32 = 65568, 131104
NAN = math.nan


@pytest.mark.parametrize(
    ("parameters", "type_", "value", "expected"),
    [
        ({"imputedDoubleValue": 1.5}, DOUBLE, NAN, 1.5),
        ({"imputedDoubleValue": 1.5}, DOUBLE, 0.0, 0.0),
        ({"imputedDoubleValue": 1.5, "replaceDoubleValue": NAN}, DOUBLE, NAN, 1.5),
        ({"imputedDoubleValue": 1.5, "replaceDoubleValue": -1}, DOUBLE, -1, 1.5),
        ({"imputedInt64Value": 2**60, "replaceInt64Value": 0}, INT64, 0, 2**60),
        ({"imputedInt64Value": 5, "replaceInt64Value": 0}, INT64, 2**60, 2**60),
        ({"imputedStringValue": "?", "replaceStringValue": "n/a"}, STRING, "n/a", "?"),
        ({"imputedStringValue": "?", "replaceStringValue": "n/a"}, STRING, "word", "word"),
        (
            {"imputedStringDictionary": {"map": [{"key": "a", "value": 1}, {"key": "b", "value": 2}]}},
            dictionary_type(),
            {"b": 7.0, "c": 3.0, "a": NAN},
            {"b": 7.0, "c": 3.0, "a": 1.0},
        ),
        (
            {"imputedInt64Dictionary": {"map": [{"key": 4, "value": 1}]}},
            dictionary_type("int64"),
            {},
            {4: 1.0},
        ),
    ],
)
def test_values(parameters: Any, type_: Any, value: Any, expected: Any) -> None:
    assert predict_value("imputer", parameters, type_, type_, value) == expected


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
def test_arrays(parameters: Any, dtype: int, value: Any, expected: Any) -> None:
    type_ = array_type(3, dtype=dtype)
    np.testing.assert_array_equal(predict_value("imputer", parameters, type_, type_, value), expected)


@pytest.mark.parametrize(
    ("parameters", "type_", "expected"),
    [
        ({"imputedStringValue": "none"}, STRING, "none"),
        ({"imputedInt64Value": 3}, INT64, 3),
        ({"imputedStringDictionary": {"map": [{"key": "a", "value": 1}]}}, dictionary_type(), {"a": 1.0}),
    ],
)
def test_absent_inputs(parameters: Any, type_: Any, expected: Any) -> None:
    spec = model_spec("imputer", parameters, {"x": type_}, {"y": type_}, optional=["x"])
    assert coremlscope.predict(read_spec(spec), {}) == {"y": expected}


def test_values_that_do_not_fit() -> None:
    with pytest.raises(CorruptModelError, match="has 2 values for the input 'x', which holds 3"):
        predict_value(
            "imputer", {"imputedDoubleArray": {"vector": [1, 2]}}, array_type(3), array_type(3), [1, 2, 3]
        )


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({}, "no replacement for missing values"),
        ({"imputedDoubleValue": 1, "replaceStringValue": ""}, "replaceStringValue, which does not fit"),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("imputer", parameters)
