"""Classical models in summaries, profiles and exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import coremlscope
from coremlscope.describe.model import describe_model
from coremlscope.model.schema import Message
from coremlscope.results.encoding import decode
from coremlscope.results.measurement import Settings
from coremlscope.results.model import ModelSummary
from tests.support.classical_specs import (
    DOUBLE,
    STRING,
    array_type,
    dictionary_type,
    model_spec,
    read_spec,
    tree_classifier,
    tree_regressor,
)
from tests.support.measuring import joined_rows, measure

_TREES = [(0, 0, 1.0, {0: 1.0, 1: 2.0}, (1, 2, 3.0, {0: 4.0, 1: 5.0}, {1: 1.0})), {0: 6.0}]
_SVR = model_spec(
    "supportVectorRegressor",
    {
        "kernel": {"rbfKernel": {"gamma": 0.5}},
        "coefficients": {"alpha": [1, 2, 3]},
        "denseSupportVectors": {"vectors": [{"values": [1, 2]}] * 3},
    },
    {"x": array_type(2)},
    {"y": DOUBLE},
)
_WORDS = {"stringToIndex": {"vector": [f"word {index}" for index in range(9)]}}
_WORD_MODEL = model_spec("dictVectorizer", _WORDS, {"x": dictionary_type()}, {"y": array_type(9)})
_MAPPING = model_spec(
    "categoricalMapping",
    {"stringToInt64Map": {"map": [{"key": "a", "value": 5}]}, "int64Value": -1},
    {"x": STRING},
    {"y": {"int64Type": {}}},
)


@pytest.mark.parametrize(
    ("spec", "facts", "flops"),
    [
        # At most two comparisons per tree and two sums; 4 leaves have 5 values: 2 additions per tree.
        (
            tree_regressor(_TREES, [0.0, 0.0]),
            {
                "trees": "2 trees of 6 nodes, 4 of them leaves",
                "depth": "at most 2 branches",
                "uses": "2 features",
                "computes": "2 sums",
                "transform": "none",
            },
            2 * 2 + 2 * 2 + 2,
        ),
        # A multiply-add per element and per coefficient, and a kernel per vector.
        (
            _SVR,
            {"support vectors": "3 of 2 features", "kernel": "radial (RBF), gamma 0.5"},
            2 * 6 + 3 + 2 * 3,
        ),
        (
            _WORD_MODEL,
            {"keys": "'word 0', 'word 1', 'word 2', 'word 3', 'word 4', 'word 5', … (9 in all)"},
            0,
        ),
        (_MAPPING, {"maps": "'a'", "others": "become -1"}, 1),
    ],
)
def test_summaries(spec: Message, facts: dict[str, str], flops: int) -> None:
    summary = describe_model(read_spec(spec), list_ops=True)
    assert dict(summary.facts) == facts
    assert summary.main.work is not None
    assert summary.main.work.flops == flops
    assert [op.type for op in summary.ops] == [summary.kind]
    assert decode(json.loads(json.dumps(summary.to_json())), ModelSummary) == summary


def test_classes() -> None:
    summary = describe_model(read_spec(tree_classifier(_TREES, [0.0, 0.0], ["no", "yes"])))
    assert summary.labels is not None
    assert summary.labels.first == ("no", "yes")


@pytest.mark.parametrize("spec", [tree_regressor(_TREES, [0.0, 0.0]), _SVR, _MAPPING, _WORD_MODEL])
def test_profiles(spec: Message) -> None:
    """Synthetic inputs use words that the model knows; all nodes belong to the one operation."""
    request = Settings(iterations=2, compile_iterations=1, load_iterations=1, warmups=0)
    profile = measure(read_spec(spec), request)
    assert [(row.id, row.status in ("timed", "folded")) for row in joined_rows(profile)] == [("main/0", True)]


def _export(spec: Message, folder: Path, feeds: dict[str, Any]) -> tuple[list[Any], Any]:
    (path,) = coremlscope.export(read_spec(spec), folder / "model.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    labels = json.loads(session.get_modelmeta().custom_metadata_map.get("coremlscope.labels", "{}"))
    return session.run(None, feeds), labels


def test_exported_trees(tmp_path: Path) -> None:
    results, _ = _export(tree_regressor(_TREES, [0.5, 0.0]), tmp_path, {"x": np.array([2.0, 0, 1])})
    np.testing.assert_array_equal(results[0], [0.5 + 4 + 6, 5])


def test_exported_words_are_numbers_explained_in_the_metadata(tmp_path: Path) -> None:
    results, labels = _export(_MAPPING, tmp_path, {"x": np.array([0])})
    assert (results[0].tolist(), labels) == ([5], {"x": ["a"]})
    assert _export(_MAPPING, tmp_path, {"x": np.array([-1])})[0][0].tolist() == [-1]
    _, labels = _export(_WORD_MODEL, tmp_path, {"x": np.zeros(9)})
    assert labels["x"] == _WORDS["stringToIndex"]["vector"]


def test_keys_and_numbers_of_a_dictionary_are_exported_separately(tmp_path: Path) -> None:
    spec = model_spec("identity", {}, {"x": dictionary_type("int64")}, {"y": dictionary_type("int64")})
    (path,) = coremlscope.export(read_spec(spec), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert {value.name for value in session.get_inputs()} == {"x", "x.keys"}
    assert {value.name for value in session.get_outputs()} == {"y", "y.keys"}
