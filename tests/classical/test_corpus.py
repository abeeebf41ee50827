"""Classical models of the corpus, against a direct evaluation of the messages in their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope.formats import container
from coremlscope.model.schema import Message, message_class
from coremlscope.results.measurement import Settings
from coremlscope.runtime.execution.pipeline import open_predictor
from tests.support.measuring import measure

pytestmark = pytest.mark.corpus

_TREES = [
    "models/improve-ai__python-ranker/model.mlmodel",
    "models/improve-ai__python-ranker/model-2.mlmodel",
]
_NAMES = "models/cocoa-ai__NamesCoreMLDemo/NamesDT.mlmodel"
_ONE_HOT = "models/onnx__onnxmltools/onehot_simple.mlmodel"
_NEIGHBORS = "models/cfinker__postal-demo-extended-with-authorship-verification/UpdatableKNN.mlmodel"


def _spec(path: Path) -> Message:
    return message_class("Model").FromString(path.read_bytes())


def _sum(ensemble: Message, x: Any) -> float:
    """The first sum over all trees, by the rules of the specification."""
    trees: dict[int, dict[int, Message]] = {}
    for node in ensemble.nodes:
        trees.setdefault(node.treeId, {})[node.nodeId] = node
    total = float(ensemble.basePredictionValue[0])
    for nodes in trees.values():
        children = {
            c for n in nodes.values() if n.nodeBehavior != 6 for c in (n.trueChildNodeId, n.falseChildNodeId)
        }
        (root,) = nodes.keys() - children
        node = nodes[root]
        while node.nodeBehavior != 6:
            value, split = x[node.branchFeatureIndex], node.branchFeatureValue
            holds = [
                value <= split,
                value < split,
                value >= split,
                value > split,
                value == split,
                value != split,
            ]
            is_true = node.missingValueTracksTrueChild if np.isnan(value) else holds[node.nodeBehavior]
            node = nodes[node.trueChildNodeId if is_true else node.falseChildNodeId]
        total += sum(entry.evaluationValue for entry in node.evaluationInfo)
    return total


@pytest.mark.parametrize("name", _TREES)
def test_trees(corpus: Path, name: str) -> None:
    spec, model = _spec(corpus / name), container.read(corpus / name)
    rng = np.random.default_rng(2)
    with open_predictor(model) as predictor:
        names = [feature.name for feature in predictor.description.inputs]
        for missing in (0.0, 0.3, 1.0):
            x = np.where(rng.random(len(names)) < missing, np.nan, 20 * rng.standard_normal(len(names)))
            result = predictor.predict(dict(zip(names, x.tolist(), strict=True)))
            assert result == {
                "target": pytest.approx(_sum(spec.treeEnsembleRegressor.treeEnsemble, x), rel=1e-12)
            }


@pytest.mark.parametrize(
    "words", [["last-letter=a", "first-letter=m", "no such word"], ["last-letter=k"], []]
)
def test_a_dictionary_by_way_of_three_models(corpus: Path, words: list[str]) -> None:
    preparing, trees = _spec(corpus / _NAMES).pipelineClassifier.pipeline.models
    keys = list(preparing.pipeline.models[0].dictVectorizer.stringToIndex.vector)
    x = np.zeros(len(keys))
    x[[keys.index(word) for word in words if word in keys]] = 1
    share = _sum(trees.treeEnsembleClassifier.treeEnsemble, x)
    first, second = trees.treeEnsembleClassifier.stringClassLabels.vector
    with open_predictor(container.read(corpus / _NAMES)) as predictor:
        result = predictor.predict({"input": dict.fromkeys(words, 1.0)})
    assert result["classProbability"] == pytest.approx({first: 1 - share, second: share})
    assert result["classLabel"] == (second if share >= 0.5 else first)


def test_categories_by_way_of_seventeen_models(corpus: Path) -> None:
    models = _spec(corpus / _ONE_HOT).pipeline.models
    categories = [
        list(m.oneHotEncoder.int64Categories.vector)
        for m in models
        if m.WhichOneof("Type") == "oneHotEncoder"
    ]
    x = np.array([group[index % len(group)] for index, group in enumerate(categories)], np.float64)
    expected = [np.eye(len(group))[index % len(group)] for index, group in enumerate(categories)]
    with open_predictor(container.read(corpus / _ONE_HOT)) as predictor:
        result = predictor.predict({"input": x})["transformed_features"]
    np.testing.assert_array_equal(result, np.concatenate(expected))


def test_neighbours_without_samples(corpus: Path) -> None:
    with open_predictor(container.read(corpus / _NEIGHBORS)) as predictor:
        result = predictor.predict({"input": np.zeros(21)})
    assert result == {"output": "defaultLabel", "outputProbs": {"defaultLabel": 1.0}}


@pytest.mark.parametrize("name", [*_TREES, _NEIGHBORS])
def test_profiles(corpus: Path, name: str) -> None:
    request = Settings(iterations=1, compile_iterations=1, load_iterations=1, warmups=0)
    profile = measure(container.read(corpus / name), request)
    assert [row.type for row in profile.ops] == [profile.model.kind]
