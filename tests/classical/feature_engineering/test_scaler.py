"""Scalers, from file to result."""

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
        ({"shiftValue": [1, 2, 3], "scaleValue": [0.5, 2, -1]}, [2, -4, -3]),
        ({"shiftValue": [1], "scaleValue": [0.5]}, [2, -1.5, 0.5]),
        ({"scaleValue": [1, 2, 3]}, [3, -8, 0]),
    ],
)
def test_arrays(parameters: Any, expected: Any) -> None:
    result = predict_value("scaler", parameters, array_type(3), array_type(3), X)
    np.testing.assert_allclose(result, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("parameters", "input_", "output", "sentence"),
    [
        ({"shiftValue": [1, 2]}, array_type(3), array_type(3), "takes 2 numbers"),
        ({"shiftValue": [1]}, STRING, array_type(1), "with string as the input"),
    ],
)
def test_features_that_do_not_fit(
    parameters: Any, input_: Any, output: Any, sentence: str, tmp_path: Path
) -> None:
    model = read_spec(model_spec("scaler", parameters, {"x": input_}, {"y": output}))
    with pytest.raises((CorruptModelError, UnsupportedModelError), match=sentence):
        compile_model(model, tmp_path)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"shiftValue": [1, 2], "scaleValue": [1, 2, 3]}, "2 shifts and 3 scales"),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("scaler", parameters)
