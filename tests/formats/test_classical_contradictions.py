"""Classical models whose parameters contradict each other: one clear sentence."""

from __future__ import annotations

from typing import Any

import pytest

from coremlscope import ir
from coremlscope.classical.trees import TreeEnsembleRegressor
from coremlscope.errors import CorruptModelError, UnsupportedModelError
from coremlscope.execution.pipeline import open_predictor
from coremlscope.formats import container
from tests.support.classical_specs import (
    DOUBLE,
    array_type,
    dictionary_type,
    model_spec,
    nodes_of,
    read_spec,
    tree_classifier,
    tree_regressor,
)

_TREE = (0, 0, 1.0, 1.0, 2.0)


def _trees(nodes: Any, dimensions: int = 1, base: Any = ()) -> Any:
    return {
        "treeEnsemble": {"nodes": nodes, "numPredictionDimensions": dimensions, "basePredictionValue": base}
    }


def _changed(**first: Any) -> Any:
    """A tree whose first node is changed."""
    root, *others = nodes_of(_TREE)
    return _trees([{**root, **first}, *others])


_VECTORS = {"denseSupportVectors": {"vectors": [{"values": [1, 2]}, {"values": [3, 4]}]}}
_LINEAR: Any = {"kernel": {"linearKernel": {}}}
_CLASSES = {"stringClassLabels": {"vector": ["a", "b"]}}
_SVC = {**_LINEAR, **_VECTORS, **_CLASSES, "numberOfSupportVectorsPerClass": [1, 1]}
_PAIR = {"coefficients": [{"alpha": [1, 2]}], "rho": [0]}
_ITEMS = {"itemInputFeatureName": "x", "recommendedItemListOutputFeatureName": "y"}


def _samples(*samples: Any, labels: Any = ("a",), k: int = 1) -> Any:
    index = {"numberOfDimensions": 2, "floatSamples": [{"vector": sample} for sample in samples]}
    return {"nearestNeighborsIndex": index, "numberOfNeighbors": {"defaultValue": k},
            "stringClassLabels": {"vector": labels}}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "parameters", "sentence"),
    [
        ("treeEnsembleRegressor", _trees([]), "has no nodes"),
        ("treeEnsembleRegressor", _trees(nodes_of(_TREE) * 2), "two nodes 10 in the tree 0"),
        (
            "treeEnsembleRegressor",
            _changed(trueChildNodeId=99),
            "no node 99 in the tree 0, though the node 10",
        ),
        ("treeEnsembleRegressor", _changed(trueChildNodeId=10), "no root|run in circles"),
        ("treeEnsembleRegressor", _changed(falseChildNodeId=11), "2 ways to the node 11 of the tree 0"),
        ("treeEnsembleRegressor", _changed(nodeBehavior=9), "unknown TreeNodeBehavior"),
        ("treeEnsembleRegressor", _changed(branchFeatureIndex=2**40), "the feature 1099511627776"),
        ("treeEnsembleRegressor", _trees(nodes_of(_TREE), 0), "no prediction dimensions"),
        (
            "treeEnsembleRegressor",
            _trees(nodes_of(_TREE), 2**60),
            "prediction dimensions without base values",
        ),
        (
            "treeEnsembleRegressor",
            _trees(nodes_of(_TREE), 2, [1]),
            "1 base values for 2 prediction dimensions",
        ),
        ("treeEnsembleRegressor", _trees(nodes_of({5: 1.0}), 2), "the prediction dimension 5 of 2"),
        ("supportVectorRegressor", _VECTORS, "has no kernel|0 coefficients"),
        ("supportVectorRegressor", {**_LINEAR}, "no support vectors"),
        ("supportVectorRegressor", {**_LINEAR, **_VECTORS}, "0 coefficients for 2 support vectors"),
        (
            "supportVectorRegressor",
            {**_LINEAR, "sparseSupportVectors": {"vectors": [{"nodes": [{"index": 0}]}]}},
            "a support vector of the feature -1",
        ),
        ("supportVectorClassifier", _SVC, "coefficients other than 1 for each of 2"),
        (
            "supportVectorClassifier",
            {**_SVC, **_PAIR, "numberOfSupportVectorsPerClass": [2, 1]},
            "which are not 2",
        ),
        ("supportVectorClassifier", {**_SVC, **_PAIR, "rho": [1, 2]}, "2 numbers rho for 1 pairs"),
        ("supportVectorClassifier", {**_SVC, **_PAIR, "probA": [1]}, "only one of probA and probB"),
        ("kNearestNeighborsClassifier", _samples([1, 2, 3]), "a sample of 3 numbers instead of 2"),
        ("kNearestNeighborsClassifier", _samples([1, 2], [1, 2]), "1 labels for 2 samples"),
        ("kNearestNeighborsClassifier", _samples([1, 2], k=0), "has 0 neighbours"),
        ("bayesianProbitRegressor", {"bias": {"mean": 1}}, "a weight of the precision 0"),
        (
            "itemSimilarityRecommender",
            {**_ITEMS, "itemItemSimilarities": [{"itemId": 2**50}]},
            "without names",
        ),
        (
            "itemSimilarityRecommender",
            {**_ITEMS, "itemItemSimilarities": [{"itemId": 3}], "itemStringIds": {"vector": ["a"]}},
            "the item 3 of 1",
        ),
        ("nonMaximumSuppression", {}, "no name of its confidenceInput"),
        ("oneHotEncoder", {}, "no CategoryType"),
        ("oneHotEncoder", {"stringCategories": {"vector": ["a", "a"]}}, "'a' twice"),
        ("imputer", {}, "no value for what is missing"),
        (
            "imputer",
            {"imputedDoubleValue": 1, "replaceStringValue": ""},
            "replaceStringValue, which does not fit",
        ),
        (
            "featureVectorizer",
            {"inputList": [{"inputColumn": "x", "inputDimensions": 2**40}]},
            "elements in all",
        ),
        ("scaler", {"shiftValue": [1, 2], "scaleValue": [1, 2, 3]}, "2 shifts and 3 scales"),
        ("categoricalMapping", {}, "no mapping"),
        ("categoricalMapping", {"stringToInt64Map": {}, "strValue": "a"}, "a default of another type"),
        ("normalizer", {"normType": 7}, "an unknown NormType .7."),
        ("arrayFeatureExtractor", {}, "nothing to extract"),
    ],
)
def test_contradictions(kind: str, parameters: Any, sentence: str) -> None:
    spec = model_spec(kind, parameters, {"x": array_type(2)}, {"y": DOUBLE})
    with pytest.raises(CorruptModelError, match=sentence):
        read_spec(spec)


def test_trees_and_classes() -> None:
    with pytest.raises(CorruptModelError, match="2 sums for 3 classes with NoTransform"):
        read_spec(tree_classifier([{1: 1.0}], [0, 0], ["a", "b", "c"]))
    with pytest.raises(CorruptModelError, match="3 sums for 3 classes with Classification_SoftMaxWith"):
        read_spec(tree_classifier([1.0], [0, 0, 0], ["a", "b", "c"], 3))


def test_nodes_that_run_in_circles_beside_a_tree() -> None:
    nodes = nodes_of(_TREE)
    circle = {"treeId": 0, "nodeId": 1, "trueChildNodeId": 2, "falseChildNodeId": 3}
    back = {"treeId": 0, "nodeId": 2, "trueChildNodeId": 1, "falseChildNodeId": 4}
    leaves = [{"treeId": 0, "nodeId": number, "nodeBehavior": 6} for number in (3, 4)]
    spec = model_spec(
        "treeEnsembleRegressor", _trees([*nodes, circle, back, *leaves]), {"x": array_type(1)}, {"y": DOUBLE}
    )
    with pytest.raises(CorruptModelError, match="4 nodes that no root leads to"):
        read_spec(spec)


def test_nodes_keep_their_hit_rates() -> None:
    content = read_spec(tree_regressor([_TREE])).content
    assert isinstance(content, TreeEnsembleRegressor)
    assert content.trees.hit_rates.numpy().tolist() == [0.0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("kind", "parameters", "content", "sentence"),
    [
        ("linkedModel",
         {"linkedModelFile": {"linkedModelFileName": {"defaultValue": "A.mlmodelc"},
                              "linkedModelSearchPath": {"defaultValue": ".:models"}}},
         ir.LinkedModel("A.mlmodelc", ".:models"), "only a link to the file of another model"),
        ("serializedModel", {"identifier": "some.framework", "model": b"abc"},
         ir.SerializedModel("some.framework", 3), "only the framework reads which wrote it"),
    ],
)  # fmt: skip
def test_models_that_are_elsewhere(kind: str, parameters: Any, content: Any, sentence: str) -> None:
    spec = model_spec(kind, parameters, {"x": array_type(1)}, {"y": dictionary_type()})
    model = container.read(spec.SerializeToString())
    assert model.content == content
    with pytest.raises(UnsupportedModelError, match=sentence):
        open_predictor(model)
