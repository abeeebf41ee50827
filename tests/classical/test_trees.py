"""Tree ensembles from file to result, against a walk over the nodes in Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coremlscope
from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.ops.classical.trees import TreeEnsembleRegressor
from coremlscope.ops.classical.trees.lower import MOST_BRANCHES
from coremlscope.runtime.execution.lowering import lower_function
from coremlscope.runtime.execution.predictor import FunctionPredictor
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    array_type,
    model_spec,
    nodes_of,
    read_parameters,
    read_spec,
    tree_classifier,
    tree_regressor,
)

LEAF_A, LEAF_B, LEAF_C = {0: 1.0, 2: 10.0}, {1: 2.0}, {0: 4.0, 1: 5.0, 2: 6.0}


def _holds(behavior: int, x: float, threshold: float) -> bool:
    return [x <= threshold, x < threshold, x >= threshold, x > threshold, x == threshold, x != threshold][
        behavior
    ]


def _walk(tree: Any, x: Any) -> dict[int, float]:
    """The values of the leaf that is reached."""
    while isinstance(tree, tuple):
        behavior, feature, threshold, true, false, *missing = tree
        value = x[feature]
        is_true = bool(missing and missing[0]) if math.isnan(value) else _holds(behavior, value, threshold)
        tree = true if is_true else false
    return tree if isinstance(tree, dict) else {0: tree}


def _sums(trees: Any, base: Any, x: Any) -> np.ndarray:
    sums = np.array(base, np.float64)
    for tree in trees:
        for dimension, value in _walk(tree, x).items():
            sums[dimension] += value
    return sums


NUMBERS = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 1.0 + 2**-52, 0.1, 1e300, -1e-300])


def _trees(dimensions: int) -> st.SearchStrategy[Any]:
    values = st.floats(-100, 100)
    leaf = values if dimensions == 1 else st.dictionaries(st.integers(0, dimensions - 1), values)
    return st.recursive(
        leaf,
        lambda child: st.tuples(st.integers(0, 5), st.integers(0, 2), NUMBERS, child, child, st.booleans()),
        max_leaves=12,
    )


@settings(max_examples=25)
@given(data=st.data(), dimensions=st.sampled_from([1, 3]))
def test_any_trees(data: st.DataObject, dimensions: int) -> None:
    """All behaviours, missing values, bare leaves, leaves that add to none or to several sums."""
    trees = data.draw(st.lists(_trees(dimensions), min_size=1, max_size=5))
    base = data.draw(st.lists(st.floats(-9, 9), min_size=dimensions, max_size=dimensions))
    rows = data.draw(st.lists(st.tuples(*[NUMBERS | st.just(math.nan)] * 3), min_size=1, max_size=5))
    with FunctionPredictor(read_spec(tree_regressor(trees, base))) as predictor:
        for x in rows:
            given_ = predictor.predict({"x": np.array(x)})["y"]
            np.testing.assert_allclose(np.atleast_1d(given_), _sums(trees, base, x), rtol=1e-12, atol=1e-12)


def test_many_equalities_of_one_feature() -> None:
    """The engine merges chains of them into sets."""
    tree: Any = -1.0
    for value in reversed([1.0, 2.0, 3.0, 5.0, 31.0, 64.0, 0.5]):
        tree = (4, 0, value, value * 10, tree, False)
    with FunctionPredictor(read_spec(tree_regressor([tree], features=1))) as predictor:
        for x in (1, 2, 3, 4, 5, 31, 64, 0.5, 0, -1, 1e9):
            assert predictor.predict({"x": [x]}) == {"y": _walk(tree, [x])[0]}


def test_sums_are_doubles() -> None:
    trees = [(1, 0, 0.1, 0.1, 0.3)] * 3
    assert coremlscope.predict(read_spec(tree_regressor(trees)), {"x": [0.1, 0, 0]}) == {
        "y": pytest.approx(0.9, rel=1e-15)
    }
    just_below = float(np.nextafter(0.1, 0))
    assert coremlscope.predict(read_spec(tree_regressor(trees)), {"x": [just_below, 0, 0]})["y"] < 0.31


def test_wide_sums_whose_leaves_are_few() -> None:
    """A table of all leaves and sums would be far larger than the file."""
    count = 3000
    trees = [
        (0, 0, float(first), {first: 1.0, first + 1: 2.0}, {first + 2: 3.0}) for first in range(0, 900, 2)
    ]
    spec = tree_regressor(trees, [0.5] * count)
    result = coremlscope.predict(read_spec(spec), {"x": [400.0, 0, 0]})["y"]
    np.testing.assert_allclose(result, _sums(trees, [0.5] * count, [400.0]))


class TestTransforms:
    TREES = ((0, 0, 0.0, LEAF_A, LEAF_B), (3, 1, 1.0, LEAF_C, LEAF_A))
    BASE = (0.25, -0.5, 1.0)

    @pytest.mark.parametrize("x", [[0, 0, 0], [1, 2, 0]])
    def test_regressors(self, x: list[float]) -> None:
        sums = _sums(self.TREES, self.BASE, x)
        for transform, expected in ((0, sums), (2, 1 / (1 + np.exp(-sums)))):
            model = read_spec(tree_regressor(self.TREES, self.BASE, transform))
            np.testing.assert_allclose(coremlscope.predict(model, {"x": x})["y"], expected, rtol=1e-13)

    @pytest.mark.parametrize("x", [[0, 0, 0], [1, 2, 0]])
    @pytest.mark.parametrize("labels", [["a", "b", "c"], [7, -5, 3]])
    def test_softmax(self, x: list[float], labels: Any) -> None:
        result = coremlscope.predict(read_spec(tree_classifier(self.TREES, self.BASE, labels, 1)), {"x": x})
        odds = np.exp(_sums(self.TREES, self.BASE, x))
        expected = dict(zip(labels, odds / odds.sum(), strict=True))
        assert result["probabilities"] == pytest.approx(expected, rel=1e-13)
        assert result["label"] == labels[int(odds.argmax())]

    def test_softmax_with_a_reference(self) -> None:
        spec = tree_classifier(self.TREES, self.BASE, ["zero", "a", "b", "c"], 3)
        result = coremlscope.predict(read_spec(spec), {"x": [1, 2, 0]})
        odds = np.exp([0, *_sums(self.TREES, self.BASE, [1, 2, 0])])
        expected = dict(zip(["zero", "a", "b", "c"], odds / odds.sum(), strict=True))
        assert result["probabilities"] == pytest.approx(expected, rel=1e-13)

    @pytest.mark.parametrize(
        ("transform", "sum_", "expected"), [(0, 0.3, 0.3), (0, 0.5, 0.5), (2, 0.3, 0.574442516811659)]
    )
    def test_one_sum_for_two_classes(self, transform: int, sum_: float, expected: float) -> None:
        """It is the second's probability; the second is taken where they are equal."""
        result = coremlscope.predict(
            read_spec(tree_classifier([sum_], [0.0], ["no", "yes"], transform)), {"x": [0, 0, 0]}
        )
        assert result["probabilities"] == pytest.approx({"no": 1 - expected, "yes": expected}, rel=1e-13)
        assert result["label"] == ("yes" if expected >= 0.5 else "no")


class TestInputs:
    def test_features_are_concatenated(self) -> None:
        inputs = {"a": DOUBLE, "b": array_type(2), "n": INT64}
        tree = (4, 3, 7.0, (2, 1, 0.5, 1.0, 2.0), 3.0)
        model = read_spec(tree_regressor([tree], inputs=inputs))
        assert coremlscope.predict(model, {"a": 0, "b": [0.5, 9], "n": 7}) == {"y": 1.0}
        assert coremlscope.predict(model, {"a": 9, "b": [0.4, 9], "n": 7}) == {"y": 2.0}
        assert coremlscope.predict(model, {"a": 9, "b": [0.4, 9], "n": 8}) == {"y": 3.0}

    @pytest.mark.parametrize(("tracks_true", "expected"), [(True, 1.0), (False, 2.0)])
    def test_absent_optional_inputs_are_missing_values(self, tracks_true: bool, expected: float) -> None:
        spec = tree_regressor(
            [(0, 1, 5.0, 1.0, 2.0, tracks_true)], inputs={"a": DOUBLE, "b": DOUBLE}, optional=["b"]
        )
        assert coremlscope.predict(read_spec(spec), {"a": 1}) == {"y": expected}
        assert coremlscope.predict(read_spec(spec), {"a": 1, "b": 9}) == {"y": 2.0}

    def test_features_out_of_range(self) -> None:
        model = read_spec(tree_regressor([(0, 3, 1.0, 1.0, 2.0)]))
        with pytest.raises(CorruptModelError, match="compares the feature 3, but its inputs hold 3 numbers"):
            coremlscope.predict(model, {"x": [1, 2, 3]})


def _chain(depth: int) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = []
    for level in range(depth):
        branch = {
            "nodeId": 2 * level,
            "branchFeatureValue": level,
            "trueChildNodeId": 2 * level + 1,
            "falseChildNodeId": 2 * level + 2,
        }
        nodes.append(branch)
        leaf = {"nodeId": 2 * level + 1, "nodeBehavior": 6, "evaluationInfo": [{"evaluationValue": level}]}
        nodes.append(leaf)
    nodes.append({"nodeId": 2 * depth, "nodeBehavior": 6, "evaluationInfo": [{"evaluationValue": -1}]})
    return nodes


def test_deep_trees() -> None:
    spec = tree_regressor([0.0])
    for depth in (MOST_BRANCHES, MOST_BRANCHES + 1):
        del spec.treeEnsembleRegressor.treeEnsemble.nodes[:]
        spec.treeEnsembleRegressor.treeEnsemble.nodes.extend(
            type(spec.treeEnsembleRegressor.treeEnsemble).FromString(b"").nodes.add(**n)
            for n in _chain(depth)
        )
        model = read_spec(spec)
        if depth == MOST_BRANCHES:
            assert coremlscope.predict(model, {"x": [depth - 1.5, 0, 0]}) == {"y": depth - 1.0}
        else:
            with pytest.raises(UnsupportedModelError, match="branches deep"):
                coremlscope.predict(model, {"x": [0, 0, 0]})


_TREE = (0, 0, 1.0, 1.0, 2.0)


def _ensemble(nodes: Any, dimensions: int = 1, base: Any = ()) -> Any:
    return {
        "treeEnsemble": {"nodes": nodes, "numPredictionDimensions": dimensions, "basePredictionValue": base}
    }


def _changed(**first: Any) -> Any:
    """A tree whose first node is changed."""
    root, *others = nodes_of(_TREE)
    return _ensemble([{**root, **first}, *others])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        (_ensemble([]), "has no nodes"),
        (_ensemble(nodes_of(_TREE) * 2), "two nodes 10 in the tree 0"),
        (_changed(trueChildNodeId=99), "no node 99 in the tree 0, which is a child of the node 10"),
        (_changed(trueChildNodeId=10), "2 nodes that cannot be reached from a root"),
        (_changed(falseChildNodeId=11), "2 parents of the node 11 of the tree 0"),
        (_changed(nodeBehavior=9), "unknown TreeNodeBehavior"),
        (_changed(branchFeatureIndex=2**40), "the feature 1099511627776"),
        (_ensemble(nodes_of(_TREE), 0), "no prediction dimensions"),
        (_ensemble(nodes_of(_TREE), 2**60), "prediction dimensions without base values"),
        (_ensemble(nodes_of(_TREE), 2, [1]), "1 base values for 2 prediction dimensions"),
        (_ensemble(nodes_of({5: 1.0}), 2), "the prediction dimension 5 of 2"),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("treeEnsembleRegressor", parameters)


def test_trees_and_classes() -> None:
    with pytest.raises(CorruptModelError, match="2 sums for 3 classes with NoTransform"):
        read_spec(tree_classifier([{1: 1.0}], [0, 0], ["a", "b", "c"]))
    with pytest.raises(CorruptModelError, match="3 sums for 3 classes with Classification_SoftMaxWith"):
        read_spec(tree_classifier([1.0], [0, 0, 0], ["a", "b", "c"], 3))


def test_cycles_beside_a_tree() -> None:
    nodes = nodes_of(_TREE)
    circle = {"treeId": 0, "nodeId": 1, "trueChildNodeId": 2, "falseChildNodeId": 3}
    back = {"treeId": 0, "nodeId": 2, "trueChildNodeId": 1, "falseChildNodeId": 4}
    leaves = [{"treeId": 0, "nodeId": number, "nodeBehavior": 6} for number in (3, 4)]
    parameters = _ensemble([*nodes, circle, back, *leaves])
    spec = model_spec("treeEnsembleRegressor", parameters, {"x": array_type(1)}, {"y": DOUBLE})
    with pytest.raises(CorruptModelError, match="4 nodes that cannot be reached from a root"):
        read_spec(spec)


def test_hit_rates_are_read() -> None:
    content = read_spec(tree_regressor([_TREE])).content
    assert isinstance(content, TreeEnsembleRegressor)
    assert content.trees.hit_rates.numpy().tolist() == [0.0, 0.5, 0.5]


def test_every_leaf_is_reached_in_one_way() -> None:
    """ONNX Runtime before 1.30 adds wrong numbers where both ways of a branch lead to the same leaf."""
    spec = tree_regressor([2.0, (1, 0, 0.5, 3.0, 4.0), 8.0])
    nodes = lower_function(read_spec(spec)).program.model.graph.node
    (tree,) = (node for node in nodes if node.op_type == "TreeEnsemble")
    attributes = {attribute.name: list(attribute.ints) for attribute in tree.attribute}
    ways = [("nodes_truenodeids", "nodes_trueleafs"), ("nodes_falsenodeids", "nodes_falseleafs")]
    leaves = [
        number
        for ids, is_leaf in ways
        for number, leaf in zip(attributes[ids], attributes[is_leaf], strict=True)
        if leaf
    ]
    assert sorted(leaves) == list(range(6))
    assert coremlscope.predict(read_spec(spec), {"x": [0.0, 0, 0]}) == {"y": 13.0}
