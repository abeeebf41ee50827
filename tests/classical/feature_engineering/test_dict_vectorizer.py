"""Dictionary vectorizers, from file to result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.runtime.execution.executable import compile_model
from tests.support.classical_specs import (
    array_type,
    dictionary_type,
    model_spec,
    predict_value,
    read_spec,
)

KEYS = {"stringToIndex": {"vector": ["b", "a", "c"]}}


def test_order_absent_keys_and_unknown_keys() -> None:
    result = predict_value(
        "dictVectorizer", KEYS, dictionary_type(), array_type(3), {"a": 2, "z": 9, "b": -1}
    )
    np.testing.assert_array_equal(result, [-1, 2, 0])
    np.testing.assert_array_equal(
        predict_value("dictVectorizer", KEYS, dictionary_type(), array_type(3), {}), [0, 0, 0]
    )


def test_integer_keys_where_the_description_says_strings() -> None:
    keys = {"int64ToIndex": {"vector": [5, -3]}}
    result = predict_value("dictVectorizer", keys, dictionary_type("string"), array_type(2), {-3: 1.5})
    np.testing.assert_array_equal(result, [0, 1.5])


def test_sparse_results() -> None:
    result = predict_value(
        "dictVectorizer", KEYS, dictionary_type(), dictionary_type("int64"), {"c": 4, "z": 1, "b": 2}
    )
    assert result == {2: 4.0, 0: 2.0}


@pytest.mark.parametrize(
    ("parameters", "input_", "output", "sentence"),
    [
        (KEYS, array_type(3), array_type(3), "takes a dictionary"),
        (KEYS, dictionary_type(), array_type(2), "gives 3 numbers"),
    ],
)
def test_features_that_do_not_fit(
    parameters: Any, input_: Any, output: Any, sentence: str, tmp_path: Path
) -> None:
    model = read_spec(model_spec("dictVectorizer", parameters, {"x": input_}, {"y": output}))
    with pytest.raises((CorruptModelError, UnsupportedModelError), match=sentence):
        compile_model(model, tmp_path)
