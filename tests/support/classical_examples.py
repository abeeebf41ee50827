"""A small classical model of each type, as specifications."""

from __future__ import annotations

from typing import Any

from coremlscope.model.schema import Message
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    STRING,
    array_type,
    classifier,
    dictionary_type,
    model_spec,
    regressor,
    sequence_type,
    tree_classifier,
    tree_regressor,
)

__all__ = ["EXAMPLES"]

_VECTORS = {"denseSupportVectors": {"vectors": [{"values": [1, 2]}, {"values": [3, 4]}, {"values": [0, 1]}]}}
_LABELS = {"stringClassLabels": {"vector": ["a", "b"]}}
_SIMILAR = [
    {"itemId": 0, "similarItemList": [{"itemId": 1, "similarityScore": 0.5}], "itemScoreAdjustment": 0.1}
]
#: Models that no function below writes: parameters, inputs, outputs.
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
#: A small model of each type, by Apple's name of the type.
EXAMPLES: dict[str, Message] = {
    "glmRegressor": regressor([[1, 2]], [3]),
    "glmClassifier": classifier([[1, 2]], [3], ["a", "b"]),
    "treeEnsembleRegressor": tree_regressor([_TREE, _TREE], [0.5, 0.25]),
    "treeEnsembleClassifier": tree_classifier([_TREE], [0.0, 0.0], ["a", "b"], 1),
    **{kind: model_spec(kind, *parts) for kind, parts in _MODELS.items()},
}
