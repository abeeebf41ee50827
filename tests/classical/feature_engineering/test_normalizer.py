"""Normalizers, from file to result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.runtime.execution.executable import compile_model
from tests.support.classical_specs import (
    STRING,
    array_type,
    model_spec,
    predict_value,
    read_parameters,
    read_spec,
)

X = [3.0, -4.0, 0.0]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"normType": 0}, [0.75, -1, 0]),
        ({"normType": 1}, [3 / 7, -4 / 7, 0]),
        ({"normType": 2}, [0.6, -0.8, 0]),
    ],
)
def test_arrays(parameters: Any, expected: Any) -> None:
    result = predict_value("normalizer", parameters, array_type(3), array_type(3), X)
    np.testing.assert_allclose(result, expected, rtol=1e-15)


@pytest.mark.parametrize("norm", [0, 1, 2])
def test_zeros_are_unchanged(norm: int) -> None:
    result = predict_value("normalizer", {"normType": norm}, array_type(2), array_type(2), [0, 0])
    np.testing.assert_array_equal(result, [0, 0])


@pytest.mark.parametrize(
    ("parameters", "input_", "output", "sentence"),
    [
        ({}, array_type(3), STRING, "cannot give the described outputs"),
    ],
)
def test_features_that_do_not_fit(
    parameters: Any, input_: Any, output: Any, sentence: str, tmp_path: Path
) -> None:
    model = read_spec(model_spec("normalizer", parameters, {"x": input_}, {"y": output}))
    with pytest.raises((CorruptModelError, UnsupportedModelError), match=sentence):
        compile_model(model, tmp_path)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"normType": 7}, "an unknown NormType .7."),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("normalizer", parameters)
