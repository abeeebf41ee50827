"""The Bayesian probit regressor from file to result, against the standard library."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.model.schema import Message
from tests.support.classical_specs import (
    DOUBLE,
    array_type,
    model_spec,
    read_parameters,
    read_spec,
)

WEIGHTS = {(0, 1): (0.5, 2.0), (0, 2): (-1.0, 4.0), (2, 1): (0.25, 0.5)}


def _probit(x: dict[str, Any], outputs: tuple[str, ...], **names: str) -> Message:
    features = [
        {"featureId": f, "weights": [{"featureValue": v, "featureWeight": {"mean": m, "precision": p}}]}
        for (f, v), (m, p) in WEIGHTS.items()
    ]
    parameters = {
        "numberOfFeatures": 3,
        "bias": {"mean": 0.1, "precision": 10},
        "features": features,
        "regressionInputFeatureName": "x",
        **names,
    }
    inputs = {"x": x} | ({"optimism": DOUBLE} if "optimismInputFeatureName" in names else {})
    return model_spec("bayesianProbitRegressor", parameters, inputs, dict.fromkeys(outputs, DOUBLE))


@pytest.mark.parametrize(("x", "value"), [(array_type(3), [1, 0, 1]), (array_type(2, 2), [[2, 1], [0, 1]])])
def test_probit(x: dict[str, Any], value: Any) -> None:
    """A vector of values or pairs of a feature and a value choose the weights 0-1 and 2-1."""
    spec = _probit(
        x,
        ("p", "mean", "variance", "worst"),
        meanOutputFeatureName="mean",
        varianceOutputFeatureName="variance",
        pessimisticProbabilityOutputFeatureName="worst",
        optimismInputFeatureName="optimism",
    )
    result = coremlscope.predict(read_spec(spec), {"x": value, "optimism": -1})
    mean, variance = 0.1 + 0.5 + 0.25, 0.1 + 0.5 + 2.0
    assert result == pytest.approx(
        {
            "mean": mean,
            "variance": variance,
            "p": NormalDist().cdf(mean / np.sqrt(1 + variance)),
            "worst": NormalDist().cdf((mean - np.sqrt(variance)) / np.sqrt(1 + variance)),
        },
        rel=1e-8,
    )


def test_sampled_probabilities_are_not_supported() -> None:
    spec = _probit(array_type(3), ("p", "drawn"), sampledProbabilityOutputFeatureName="drawn")
    with pytest.raises(UnsupportedModelError, match=r"'drawn' .* not supported"):
        coremlscope.predict(read_spec(spec), {"x": [1, 2, 3]})


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"bias": {"mean": 1}}, "a weight of the precision 0"),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("bayesianProbitRegressor", parameters)
