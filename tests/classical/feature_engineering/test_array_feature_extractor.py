"""Array feature extractors, from file to result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coremlscope.base.errors import CorruptModelError
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    array_type,
    predict_value,
    read_parameters,
)


def test_elements() -> None:
    parameters = {"extractIndex": [3, 0, 3]}
    result = predict_value(
        "arrayFeatureExtractor", parameters, array_type(2, 2), array_type(3), [[1, 2], [3, 4]]
    )
    np.testing.assert_array_equal(result, [4, 1, 4])


def test_single_elements() -> None:
    assert (
        predict_value("arrayFeatureExtractor", {"extractIndex": [1]}, array_type(2), DOUBLE, [1, 2.5]) == 2.5
    )
    result = predict_value("arrayFeatureExtractor", {"extractIndex": [1]}, array_type(2), INT64, [1, 2.0])
    assert (result, type(result)) == (2, int)


def test_elements_out_of_range() -> None:
    with pytest.raises(CorruptModelError, match="extracts the element 2, but its input holds 2"):
        predict_value("arrayFeatureExtractor", {"extractIndex": [2]}, array_type(2), DOUBLE, [1, 2])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({}, "nothing to extract"),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("arrayFeatureExtractor", parameters)
