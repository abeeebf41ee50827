"""One-hot encoders, from file to result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coremlscope.base.errors import CorruptModelError, InputError
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    STRING,
    array_type,
    dictionary_type,
    predict_value,
    read_parameters,
)

WORDS = {"stringCategories": {"vector": ["red", "green", "blue"]}}
NUMBERS = {"int64Categories": {"vector": [30, 10, 2**40]}}


@pytest.mark.parametrize(
    ("parameters", "input_", "value", "index"),
    [
        (WORDS, STRING, "blue", 2),
        (NUMBERS, INT64, 2**40, 2),
        (NUMBERS, DOUBLE, 10.0, 1),
        (NUMBERS, array_type(1), [30], 0),
    ],
)
def test_categories(parameters: Any, input_: Any, value: Any, index: int) -> None:
    result = predict_value("oneHotEncoder", parameters, input_, array_type(3), value)
    np.testing.assert_array_equal(result, np.eye(3)[index])


@pytest.mark.parametrize(("parameters", "input_", "value"), [(WORDS, STRING, "bleu"), (NUMBERS, INT64, 11)])
def test_unknown_categories(parameters: Any, input_: Any, value: Any) -> None:
    with pytest.raises(InputError, match=r"unknown category .* of the input 'x'"):
        predict_value("oneHotEncoder", parameters, input_, array_type(3), value)
    ignored = predict_value("oneHotEncoder", {**parameters, "handleUnknown": 1}, input_, array_type(3), value)
    np.testing.assert_array_equal(ignored, [0, 0, 0])


def test_an_error_names_the_nearest_category() -> None:
    with pytest.raises(InputError) as raised:
        predict_value("oneHotEncoder", WORDS, STRING, array_type(3), "grene")
    assert raised.value.hint == "did you mean 'green'?"


def test_dictionaries() -> None:
    sparse = {**WORDS, "outputSparse": True, "handleUnknown": 1}
    assert predict_value("oneHotEncoder", sparse, STRING, dictionary_type("int64"), "blue") == {2: 1.0}
    assert predict_value("oneHotEncoder", sparse, STRING, dictionary_type("string"), "blue") == {"blue": 1.0}
    assert predict_value("oneHotEncoder", sparse, STRING, dictionary_type("int64"), "pink") == {}


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({}, "no CategoryType"),
        ({"stringCategories": {"vector": ["a", "a"]}}, "'a' twice"),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("oneHotEncoder", parameters)
