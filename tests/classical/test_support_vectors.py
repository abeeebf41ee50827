"""Support vector machines from file to result, against NumPy."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import CorruptModelError
from coremlscope.model.schema import Message
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    STRING,
    array_type,
    dictionary_type,
    model_spec,
    read_parameters,
    read_spec,
)

_RNG = np.random.default_rng(11)
VECTORS, X = _RNG.standard_normal((7, 3)), _RNG.standard_normal(3)
KERNELS: list[tuple[dict[str, Any], Any]] = [
    ({"linearKernel": {}}, lambda v: v @ X),
    ({"rbfKernel": {"gamma": 0.7}}, lambda v: np.exp(-0.7 * ((v - X) ** 2).sum(1))),
    ({"polyKernel": {"degree": 3, "c": 0.5, "gamma": 0.25}}, lambda v: (0.25 * v @ X + 0.5) ** 3),
    ({"polyKernel": {"degree": 0, "c": 0, "gamma": 1}}, lambda v: np.ones(len(v))),
    ({"sigmoidKernel": {"gamma": 0.3, "c": -0.2}}, lambda v: np.tanh(0.3 * v @ X - 0.2)),
]
SPARSE = np.where(_RNG.random(VECTORS.shape) < 0.5, VECTORS, 0.0)
SPARSE[2] = 0


def _support(vectors: np.ndarray, *, is_sparse: bool) -> dict[str, Any]:
    if not is_sparse:
        return {"denseSupportVectors": {"vectors": [{"values": row} for row in vectors]}}
    rows = [
        {"nodes": [{"index": column + 1, "value": row[column]} for column in np.flatnonzero(row)]}
        for row in vectors
    ]
    return {"sparseSupportVectors": {"vectors": rows}}


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(("kernel", "expected"), KERNELS)
def test_regressors(kernel: dict[str, Any], expected: Any, is_sparse: bool) -> None:
    vectors = SPARSE if is_sparse else VECTORS
    alpha = _RNG.standard_normal(len(vectors))
    parameters = {"kernel": kernel, "coefficients": {"alpha": alpha}, "rho": 0.75}
    spec = model_spec(
        "supportVectorRegressor",
        parameters | _support(vectors, is_sparse=is_sparse),
        {"x": array_type(3)},
        {"y": DOUBLE},
    )
    result = coremlscope.predict(read_spec(spec), {"x": X})["y"]
    assert result == pytest.approx(alpha @ expected(vectors) - 0.75, rel=1e-12)


def _classifier(
    per_class: list[int], labels: list[Any], *, probabilities: bool, is_sparse: bool = False
) -> tuple[Message, np.ndarray, np.ndarray, np.ndarray]:
    classes, pairs = len(per_class), len(per_class) * (len(per_class) - 1) // 2
    rng = np.random.default_rng(classes)
    coefficients, rho = rng.standard_normal((classes - 1, sum(per_class))), rng.standard_normal(pairs)
    prob = np.stack([-1 - rng.random(pairs), rng.standard_normal(pairs)])
    kind = "string" if isinstance(labels[0], str) else "int64"
    parameters: dict[str, Any] = {
        "kernel": KERNELS[1][0],
        "numberOfSupportVectorsPerClass": per_class,
        "coefficients": [{"alpha": row} for row in coefficients],
        "rho": rho,
        f"{kind}ClassLabels": {"vector": labels},
        **_support(VECTORS[: sum(per_class)], is_sparse=is_sparse),
    }
    outputs: dict[str, Any] = {"label": STRING if kind == "string" else INT64}
    if probabilities:
        parameters |= {"probA": prob[0], "probB": prob[1]}
        outputs["p"] = dictionary_type(kind)
    return (
        model_spec("supportVectorClassifier", parameters, {"x": array_type(3)}, outputs),
        coefficients,
        rho,
        prob,
    )


def _decisions(per_class: list[int], coefficients: np.ndarray, rho: np.ndarray) -> list[float]:
    """The regression of each pair of classes, written out."""
    kernels = KERNELS[1][1](VECTORS[: sum(per_class)])
    starts = np.cumsum([0, *per_class])
    decisions = []
    for pair, (i, j) in enumerate(combinations(range(len(per_class)), 2)):
        of_i, of_j = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        total = coefficients[j - 1, of_i] @ kernels[of_i] + coefficients[i, of_j] @ kernels[of_j]
        decisions.append(total - rho[pair])
    return decisions


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    ("per_class", "labels"), [([3, 4], ["no", "yes"]), ([2, 2, 3], [5, 3, 4]), ([1, 0, 2, 3], list("abcd"))]
)
def test_votes(per_class: list[int], labels: list[Any], is_sparse: bool) -> None:
    spec, coefficients, rho, _ = _classifier(per_class, labels, probabilities=False, is_sparse=is_sparse)
    votes = np.zeros(len(labels))
    for (i, j), score in zip(
        combinations(range(len(labels)), 2), _decisions(per_class, coefficients, rho), strict=True
    ):
        votes[i if score > 0 else j] += 1
    assert coremlscope.predict(read_spec(spec), {"x": X}) == {"label": labels[int(votes.argmax())]}


def _coupled(r: np.ndarray) -> np.ndarray:
    """LIBSVM's coupling of probabilities of pairs: Wu, Lin and Weng (2004), their second method."""
    k = len(r)
    p, q = np.full(k, 1 / k), -r.T * r
    for t in range(k):
        q[t, t] = sum(r[j, t] ** 2 for j in range(k) if j != t)
    for _ in range(max(100, k)):
        qp = q @ p
        pqp = p @ qp
        if np.abs(qp - pqp).max() < 0.005 / k:
            break
        for t in range(k):
            change = (pqp - qp[t]) / q[t, t]
            p[t] += change
            pqp = (pqp + change * (change * q[t, t] + 2 * qp[t])) / (1 + change) ** 2
            qp, p = (qp + change * q[t]) / (1 + change), p / (1 + change)
    return p


@pytest.mark.parametrize(
    ("per_class", "labels"), [([3, 4], ["no", "yes"]), ([2, 2, 3], [5, 3, 4]), ([1, 1, 2, 3], list("abcd"))]
)
def test_probabilities(per_class: list[int], labels: list[Any]) -> None:
    spec, coefficients, rho, (a, b) = _classifier(per_class, labels, probabilities=True)
    k = len(labels)
    r = np.zeros((k, k))
    for pair, (i, j) in enumerate(combinations(range(k), 2)):
        score = _decisions(per_class, coefficients, rho)[pair]
        r[i, j] = np.clip(1 / (1 + np.exp(a[pair] * score + b[pair])), 1e-7, 1 - 1e-7)
        r[j, i] = 1 - r[i, j]
    expected = np.array([r[0, 1], r[1, 0]]) if k == 2 else _coupled(r)
    result = coremlscope.predict(read_spec(spec), {"x": X})
    assert result["p"] == pytest.approx(dict(zip(labels, expected, strict=True)), rel=1e-12)
    assert result["label"] == labels[int(expected.argmax())]


def test_described_probabilities_of_a_model_without_them() -> None:
    spec, *_ = _classifier([3, 4], ["no", "yes"], probabilities=True)
    del spec.supportVectorClassifier.probA[:], spec.supportVectorClassifier.probB[:]
    with pytest.raises(CorruptModelError, match="has no probabilities, but describes the output 'p'"):
        coremlscope.predict(read_spec(spec), {"x": X})


def test_features_out_of_range() -> None:
    parameters = {"kernel": {"linearKernel": {}}, "coefficients": {"alpha": [1]}, "rho": 0}
    vectors = {"sparseSupportVectors": {"vectors": [{"nodes": [{"index": 4, "value": 1}]}]}}
    spec = model_spec("supportVectorRegressor", parameters | vectors, {"x": array_type(3)}, {"y": DOUBLE})
    with pytest.raises(CorruptModelError, match="has the feature 4, but its inputs hold 3"):
        coremlscope.predict(read_spec(spec), {"x": X})


_VECTORS = {"denseSupportVectors": {"vectors": [{"values": [1, 2]}, {"values": [3, 4]}]}}
_LINEAR: Any = {"kernel": {"linearKernel": {}}}
_CLASSES = {"stringClassLabels": {"vector": ["a", "b"]}}
_SVC = {**_LINEAR, **_VECTORS, **_CLASSES, "numberOfSupportVectorsPerClass": [1, 1]}
_PAIR = {"coefficients": [{"alpha": [1, 2]}], "rho": [0]}


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        (_VECTORS, "has no kernel|0 coefficients"),
        ({**_LINEAR}, "no support vectors"),
        ({**_LINEAR, **_VECTORS}, "0 coefficients for 2 support vectors"),
        (
            {**_LINEAR, "sparseSupportVectors": {"vectors": [{"nodes": [{"index": 0}]}]}},
            "a support vector of the feature -1",
        ),
    ],
)
def test_contradictory_parameters_of_regressors(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("supportVectorRegressor", parameters)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        (_SVC, "coefficients other than 1 for each of 2"),
        ({**_SVC, **_PAIR, "numberOfSupportVectorsPerClass": [2, 1]}, "which are not 2"),
        ({**_SVC, **_PAIR, "rho": [1, 2]}, "2 numbers rho for 1 pairs"),
        ({**_SVC, **_PAIR, "probA": [1]}, "only one of probA and probB"),
    ],
)
def test_contradictory_parameters_of_classifiers(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("supportVectorClassifier", parameters)
