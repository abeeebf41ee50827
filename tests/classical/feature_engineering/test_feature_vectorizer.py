"""Feature vectorizers, from file to result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import CorruptModelError
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    array_type,
    dictionary_type,
    model_spec,
    read_parameters,
    read_spec,
)

FP32 = 65568


def test_feature_vectorizer() -> None:
    inputs = {"n": INT64, "a": array_type(2, 2, dtype=FP32), "s": dictionary_type("int64"), "d": DOUBLE}
    columns = [("s", 3), ("d", 1), ("a", 4), ("n", 1)]
    parameters = {"inputList": [{"inputColumn": name, "inputDimensions": size} for name, size in columns]}
    model = read_spec(model_spec("featureVectorizer", parameters, inputs, {"y": array_type(9)}))
    given = {"n": 7, "a": [[1, 2], [3, 4]], "s": {2: 0.5}, "d": -1}
    np.testing.assert_array_equal(coremlscope.predict(model, given)["y"], [0, 0, 0.5, -1, 1, 2, 3, 4, 7])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"inputList": [{"inputColumn": "x", "inputDimensions": 2**40}]}, "elements in all"),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("featureVectorizer", parameters)
