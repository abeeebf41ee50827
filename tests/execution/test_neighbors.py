"""Nearest neighbours and the Bayesian probit regressor from file to result, against NumPy."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope.errors import UnsupportedModelError
from coremlscope.schema import Message
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    STRING,
    array_type,
    dictionary_type,
    model_spec,
    read_spec,
)

_RNG = np.random.default_rng(5)
SAMPLES = _RNG.standard_normal((12, 4)).astype(np.float32)
LABELS = list("caabcbacbbca")
FP32 = 65568


def _neighbors(
    k: int, weighting: str = "uniformWeighting", samples: Any = SAMPLES, labels: Any = LABELS, **more: Any
) -> Message:
    kind = "int64" if labels and not isinstance(labels[0], str) else "string"
    parameters = {
        "nearestNeighborsIndex": {
            "numberOfDimensions": 4,
            "floatSamples": [{"vector": row} for row in samples],
            "singleKdTreeIndex": {"leafSize": 3},
            "squaredEuclideanDistance": {},
        },
        "numberOfNeighbors": {"defaultValue": k, "range": {"minValue": 1, "maxValue": 100}},
        f"{kind}ClassLabels": {"vector": labels},
        weighting: {},
        **more,
    }
    outputs = {"label": STRING if kind == "string" else INT64, "probabilities": dictionary_type(kind)}
    return model_spec("kNearestNeighborsClassifier", parameters, {"x": array_type(4, dtype=FP32)}, outputs)


@pytest.mark.parametrize("k", [1, 3, 7, 99])
@pytest.mark.parametrize("weighting", ["uniformWeighting", "inverseDistanceWeighting"])
def test_votes(k: int, weighting: str) -> None:
    x = np.array([0.1, -0.2, 0.3, 0.5], np.float32)
    distances = ((SAMPLES.astype(np.float64) - x) ** 2).sum(1)
    votes = dict.fromkeys(LABELS, 0.0)
    for place in np.argsort(distances)[:k]:
        votes[LABELS[place]] += 1 if weighting == "uniformWeighting" else 1 / distances[place]
    result = coremlscope.predict(read_spec(_neighbors(k, weighting)), {"x": x})
    total = sum(votes.values())
    expected = {label: vote / total for label, vote in votes.items()}
    assert result["probabilities"] == pytest.approx(expected, rel=1e-12)
    assert result["label"] == max(votes, key=lambda label: votes[label])


def test_a_sample_that_is_met_exactly() -> None:
    result = coremlscope.predict(read_spec(_neighbors(5, "inverseDistanceWeighting")), {"x": SAMPLES[4]})
    assert result == {"label": "c", "probabilities": {"a": 0.0, "b": 0.0, "c": 1.0}}


def test_integers_as_labels() -> None:
    spec = _neighbors(1, samples=SAMPLES[:2], labels=[-7, 9])
    assert coremlscope.predict(read_spec(spec), {"x": SAMPLES[1]})["label"] == 9


def test_no_samples() -> None:
    spec = _neighbors(3, samples=[], labels=[], defaultStringLabel="none yet")
    assert coremlscope.predict(read_spec(spec), {"x": [1, 2, 3, 4]}) == {
        "label": "none yet",
        "probabilities": {"none yet": 1.0},
    }


WEIGHTS = {(0, 1): (0.5, 2.0), (0, 2): (-1.0, 4.0), (2, 1): (0.25, 0.5)}


def _probit(x: dict[str, Any], outputs: tuple[str, ...], **names: str) -> Message:
    features = [
        {"featureId": f, "weights": [{"featureValue": v, "featureWeight": {"mean": m, "precision": p}}]}
        for (f, v), (m, p) in WEIGHTS.items()
    ]
    parameters = {
        "numberOfFeatures": 3, "bias": {"mean": 0.1, "precision": 10}, "features": features,
        "regressionInputFeatureName": "x", **names,
    }  # fmt: skip
    inputs = {"x": x} | ({"optimism": DOUBLE} if "optimismInputFeatureName" in names else {})
    return model_spec("bayesianProbitRegressor", parameters, inputs, dict.fromkeys(outputs, DOUBLE))


@pytest.mark.parametrize(("x", "value"), [(array_type(3), [1, 0, 1]), (array_type(2, 2), [[2, 1], [0, 1]])])
def test_probit(x: dict[str, Any], value: Any) -> None:
    """The weights 0-1 and 2-1 are chosen, by a vector of values or by pairs."""
    spec = _probit(
        x, ("p", "mean", "variance", "worst"), meanOutputFeatureName="mean",
        varianceOutputFeatureName="variance", pessimisticProbabilityOutputFeatureName="worst",
        optimismInputFeatureName="optimism",
    )  # fmt: skip
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


def test_probabilities_that_are_drawn_are_refused() -> None:
    spec = _probit(array_type(3), ("p", "drawn"), sampledProbabilityOutputFeatureName="drawn")
    with pytest.raises(UnsupportedModelError, match=r"'drawn' .* drawn by chance"):
        coremlscope.predict(read_spec(spec), {"x": [1, 2, 3]})
