"""Identity models, from file to result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coremlscope
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    STRING,
    array_type,
    dictionary_type,
    model_spec,
    predict_value,
    read_spec,
    sequence_type,
)

X = [3.0, -4.0, 0.0]


def test_arrays() -> None:
    result = predict_value("identity", {}, array_type(3), array_type(3), X)
    np.testing.assert_allclose(result, X, rtol=1e-15)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (DOUBLE, 0.1),
        (INT64, 2**62),
        (STRING, "naïve"),
        (dictionary_type(), {"a": 1.0}),
        (dictionary_type("int64"), {}),
        (sequence_type(), ["a", "b"]),
        (sequence_type("int64"), [3, 2**50]),
    ],
)
def test_identity(type_: Any, value: Any) -> None:
    assert predict_value("identity", {}, type_, type_, value) == value


def test_identity_of_several_features_by_name() -> None:
    model = read_spec(model_spec("identity", {}, {"a": DOUBLE, "b": STRING}, {"b": STRING, "a": DOUBLE}))
    assert coremlscope.predict(model, {"a": 1, "b": "x"}) == {"a": 1.0, "b": "x"}
