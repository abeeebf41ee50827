"""Damaged classical models: a model or one clear error comes out, soon, and so it does when they are run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coremlscope import ir
from coremlscope.classical import CLASSICAL_TYPES
from coremlscope.errors import CoremlscopeError
from coremlscope.execution.binding import choose_function
from coremlscope.execution.executable import compile_model
from coremlscope.features import dummy_values
from coremlscope.formats import container
from coremlscope.schema import Message
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    STRING,
    array_type,
    dictionary_type,
    model_spec,
    sequence_type,
    tree_classifier,
    tree_regressor,
)

_VECTORS = {"denseSupportVectors": {"vectors": [{"values": [1, 2]}, {"values": [3, 4]}, {"values": [0, 1]}]}}
_LABELS = {"stringClassLabels": {"vector": ["a", "b"]}}
_SIMILAR = [
    {"itemId": 0, "similarItemList": [{"itemId": 1, "similarityScore": 0.5}], "itemScoreAdjustment": 0.1}
]
#: A model of each kind but the linear ones: parameters, inputs, outputs.
_MODELS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "supportVectorRegressor": (
        {"kernel": {"rbfKernel": {"gamma": 0.5}}, "coefficients": {"alpha": [1, 2, 3]}, **_VECTORS},
        {"x": array_type(2)},
        {"y": DOUBLE},
    ),
    "supportVectorClassifier": (
        {
            "kernel": {"polyKernel": {"degree": 2}},
            "coefficients": [{"alpha": [1, 2, 3]}],
            "rho": [1],
            "numberOfSupportVectorsPerClass": [1, 2],
            "probA": [1],
            "probB": [1],
            **_VECTORS,
            **_LABELS,
        },
        {"x": array_type(2)},
        {"label": STRING, "p": dictionary_type()},
    ),
    "kNearestNeighborsClassifier": (
        {
            "nearestNeighborsIndex": {
                "numberOfDimensions": 2,
                "floatSamples": [{"vector": [1, 2]}, {"vector": [3, 4]}],
            },
            "numberOfNeighbors": {"defaultValue": 1},
            **_LABELS,
        },
        {"x": array_type(2)},
        {"label": STRING, "p": dictionary_type()},
    ),
    "bayesianProbitRegressor": (
        {
            "numberOfFeatures": 2,
            "bias": {"precision": 1},
            "regressionInputFeatureName": "x",
            "features": [
                {
                    "featureId": 1,
                    "weights": [{"featureValue": 3, "featureWeight": {"mean": 1, "precision": 2}}],
                }
            ],
        },
        {"x": array_type(2)},
        {"y": DOUBLE},
    ),
    "itemSimilarityRecommender": (
        {
            "itemItemSimilarities": _SIMILAR,
            "itemInputFeatureName": "x",
            "recommendedItemListOutputFeatureName": "y",
        },
        {"x": dictionary_type("int64")},
        {"y": sequence_type("int64")},
    ),
    "nonMaximumSuppression": (
        {
            "pickTop": {"perClass": True},
            "iouThreshold": 0.5,
            "confidenceInputFeatureName": "x",
            "coordinatesInputFeatureName": "b",
            "confidenceOutputFeatureName": "y",
            "coordinatesOutputFeatureName": "z",
        },
        {"x": array_type(4, 2), "b": array_type(4, 4)},
        {"y": array_type(), "z": array_type()},
    ),
    "oneHotEncoder": ({"int64Categories": {"vector": [1, 2, 3]}}, {"x": INT64}, {"y": array_type(3)}),
    "imputer": ({"imputedDoubleArray": {"vector": [1, 2]}}, {"x": array_type(2)}, {"y": array_type(2)}),
    "featureVectorizer": (
        {"inputList": [{"inputColumn": "x", "inputDimensions": 2}]},
        {"x": array_type(2)},
        {"y": array_type(2)},
    ),
    "dictVectorizer": (
        {"stringToIndex": {"vector": ["a", "b"]}},
        {"x": dictionary_type()},
        {"y": array_type(2)},
    ),
    "scaler": ({"shiftValue": [1, 2], "scaleValue": [3, 4]}, {"x": array_type(2)}, {"y": array_type(2)}),
    "categoricalMapping": (
        {"stringToInt64Map": {"map": [{"key": "a", "value": 1}]}, "int64Value": 3},
        {"x": STRING},
        {"y": INT64},
    ),
    "normalizer": ({"normType": 2}, {"x": array_type(2)}, {"y": array_type(2)}),
    "arrayFeatureExtractor": ({"extractIndex": [1, 0]}, {"x": array_type(2)}, {"y": array_type(2)}),
    "identity": ({}, {"x": STRING}, {"y": STRING}),
}
_TREE = (0, 0, 1.0, {0: 1.0, 1: 2.0}, (4, 1, 2.0, {1: 3.0}, {0: 4.0}))
_SPECS: dict[str, Message] = {
    "treeEnsembleRegressor": tree_regressor([_TREE, _TREE], [0.5, 0.25]),
    "treeEnsembleClassifier": tree_classifier([_TREE], [0.0, 0.0], ["a", "b"], 1),
    **{kind: model_spec(kind, *parts) for kind, parts in _MODELS.items()},
}
_KINDS = sorted(_SPECS)


def _check(error: CoremlscopeError) -> None:
    is_clear = error.message and error.message.isprintable() and len(error.message) < 1000
    if not is_clear:
        raise AssertionError(f"{error.message!r}, {error.hint!r}") from error


def _read(data: bytes) -> ir.Model | None:
    try:
        return container.read(data)
    except CoremlscopeError as error:
        _check(error)
        return None


def _run(data: bytes, folder: Path) -> None:
    """Reads and runs a model; only our own errors may come out."""
    try:
        model = container.read(data)
        executable = compile_model(model, folder)
        chosen = choose_function(model)
        executable.predict(dummy_values(chosen.description, chosen.function))
    except CoremlscopeError as error:
        _check(error)


def test_all_kinds_are_here() -> None:
    assert set(CLASSICAL_TYPES) == {"glmRegressor", "glmClassifier", *_SPECS}


@pytest.mark.parametrize("kind", _KINDS)
def test_truncations_and_single_flips(kind: str) -> None:
    data = _SPECS[kind].SerializeToString()
    assert _read(data) is not None
    for position in range(len(data)):
        _read(data[:position])
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= mask
            _read(bytes(damaged))


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(_KINDS),
    where=st.lists(st.floats(0, 1, exclude_max=True), max_size=3),
    mask=st.integers(1, 255),
)
def test_damaged_models_are_run(
    tmp_path_factory: pytest.TempPathFactory, kind: str, where: list[float], mask: int
) -> None:
    data = bytearray(_SPECS[kind].SerializeToString())
    for place in where:
        data[int(place * len(data))] ^= mask
    _run(bytes(data), tmp_path_factory.mktemp("damaged"))
