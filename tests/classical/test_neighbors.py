"""Nearest neighbours from file to result, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import CorruptModelError
from coremlscope.model.schema import Message
from tests.support.classical_specs import (
    INT64,
    STRING,
    array_type,
    dictionary_type,
    model_spec,
    read_parameters,
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


def test_a_sample_that_equals_the_features() -> None:
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


def _samples(*samples: Any, labels: Any = ("a",), k: int = 1) -> Any:
    index = {"numberOfDimensions": 2, "floatSamples": [{"vector": sample} for sample in samples]}
    return {
        "nearestNeighborsIndex": index,
        "numberOfNeighbors": {"defaultValue": k},
        "stringClassLabels": {"vector": labels},
    }


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        (_samples([1, 2, 3]), "a sample of 3 numbers instead of 2"),
        (_samples([1, 2], [1, 2]), "1 labels for 2 samples"),
        (_samples([1, 2], k=0), "has 0 neighbours"),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("kNearestNeighborsClassifier", parameters)
