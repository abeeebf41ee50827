"""Generalised linear models from file to result, against NumPy and the standard library."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import msgspec.structs
import numpy as np
import onnxruntime
import pytest

import coremlscope
from coremlscope.base.errors import CorruptModelError, InputError, UnsupportedModelError, UsageError
from coremlscope.describe.model import describe_model
from coremlscope.model import ir
from coremlscope.model.schema import Message
from coremlscope.ops.classical.linear import GLMClassifier, GLMRegressor
from coremlscope.results.measurement import Settings
from coremlscope.runtime.execution.executable import compile_model, load_compiled
from coremlscope.runtime.execution.pipeline import open_predictor
from coremlscope.runtime.execution.predictor import FunctionPredictor
from tests.support.classical_specs import array_type, classifier, read_spec, regressor
from tests.support.measuring import joined_rows, measure, op_ids

_RNG = np.random.default_rng(3)
WEIGHTS, OFFSETS, X = _RNG.standard_normal((3, 4)), _RNG.standard_normal(3), _RNG.standard_normal(4)
SCORES = WEIGHTS @ X + OFFSETS
FP32, INT32 = 65568, 131104


def _sigmoid(scores: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-scores))


class TestRegressor:
    def test_results_are_doubles(self) -> None:
        model = read_spec(regressor([[1, 2]], [0.1]))
        assert coremlscope.predict(model, {"x0": 2, "x1": 3.0}) == {"y": 8.1}
        assert coremlscope.predict(model, {"x0": 1e300, "x1": 1e300}) == {"y": 1e300 + 2e300}

    @pytest.mark.parametrize(
        ("transform", "expected", "tolerance"),
        [
            (0, SCORES, 1e-12),
            (1, _sigmoid(SCORES), 1e-12),
            (2, np.array([NormalDist().cdf(score) for score in SCORES]), 1e-9),
        ],
    )
    def test_transforms(self, transform: int, expected: np.ndarray, tolerance: float) -> None:
        spec = regressor(WEIGHTS, OFFSETS, transform, inputs={"x": array_type(4)}, output=array_type(3))
        result = coremlscope.predict(read_spec(spec), {"x": X})["y"]
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, expected, rtol=tolerance)

    def test_probit_of_scores_far_from_zero(self) -> None:
        scores = np.array([-1e9, -30, -6.5, -3, -0.0, 0, 0.5, 8, 1e9])
        spec = regressor([[score] for score in scores], [0] * 9, 2, output=array_type(9))
        result = coremlscope.predict(read_spec(spec), {"x0": 1})["y"]
        expected = [math.erfc(-score / math.sqrt(2)) / 2 for score in scores]
        np.testing.assert_allclose(result, expected, rtol=5e-6, atol=0)
        np.testing.assert_allclose(result, expected, rtol=0, atol=3e-16)

    def test_features_are_concatenated(self) -> None:
        inputs = {
            "n": {"int64Type": {}},
            "a": array_type(2, 2, dtype=FP32),
            "b": array_type(1, dtype=INT32),
            "d": {"doubleType": {}},
        }
        model = read_spec(regressor([[1, 10, 100, 1e3, 1e4, 1e5, 1e6]], [0], inputs=inputs))
        given = {"d": 7, "b": [6], "a": [[2, 3], [4, 5]], "n": 1}
        assert coremlscope.predict(model, given) == {"y": 7654321.0}

    def test_the_output_has_the_described_shape(self) -> None:
        spec = regressor([[1], [2], [3]], [0, 0, 0], output=array_type(3, 1, dtype=FP32))
        result = coremlscope.predict(read_spec(spec), {"x0": 2})["y"]
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, [[2], [4], [6]])

    def test_integers_that_float32_cannot_hold(self) -> None:
        model = read_spec(regressor([[1]], [0], inputs={"n": {"int64Type": {}}}))
        assert coremlscope.predict(model, {"n": 2**24 + 1}) == {"y": 2.0**24 + 1}

    def test_large_weights_are_stored_in_the_weight_file(self, tmp_path: Path) -> None:
        weights, x = _RNG.standard_normal((2, 2000)), _RNG.standard_normal(2000)
        model = read_spec(regressor(weights, [1, 2], inputs={"x": array_type(2000)}, output=array_type(2)))
        compile_model(model, tmp_path).close()
        loaded = load_compiled(tmp_path, model)
        assert loaded.program.weights_bytes == weights.nbytes
        np.testing.assert_allclose(loaded.predict({"x": x})["y"], weights @ x + [1, 2], rtol=1e-12)


class TestClassifier:
    @pytest.mark.parametrize("encoding", [0, 1])
    @pytest.mark.parametrize(("transform", "link"), [(0, _sigmoid), (1, np.vectorize(NormalDist().cdf))])
    @pytest.mark.parametrize("sign", [-1, 1])
    def test_two_classes(self, encoding: int, transform: int, link: Any, sign: int) -> None:
        weights, offset = sign * WEIGHTS[0], sign * OFFSETS[0]
        spec = classifier([weights], [offset], ["no", "yes"], transform=transform, encoding=encoding)
        result = coremlscope.predict(read_spec(spec), {"x": X})
        probability = float(link(np.float64(sign * SCORES[0])))
        expected = {"no": 1 - probability, "yes": probability}
        assert result["probabilities"] == pytest.approx(expected, rel=1e-9)
        assert result["label"] == ("yes" if probability > 0.5 else "no")

    def test_one_class_is_the_reference(self) -> None:
        """The scores are log-odds against the first class."""
        spec = classifier(WEIGHTS, OFFSETS, [7, 5, 3, 1])
        result = coremlscope.predict(read_spec(spec), {"x": X})
        odds = np.exp([0, *SCORES])
        expected = dict(zip([7, 5, 3, 1], odds / odds.sum(), strict=True))
        assert result["probabilities"] == pytest.approx(expected, rel=1e-12)
        assert result["label"] == [7, 5, 3, 1][int(odds.argmax())]

    def test_each_class_against_the_rest(self) -> None:
        spec = classifier(WEIGHTS, OFFSETS, ["a", "b", "c"], encoding=1)
        result = coremlscope.predict(read_spec(spec), {"x": X})
        each = _sigmoid(SCORES)
        assert result["probabilities"] == pytest.approx(
            dict(zip("abc", each / each.sum(), strict=True)), rel=1e-12
        )
        assert result["label"] == "abc"[int(each.argmax())]

    def test_the_label_is_right_where_probabilities_saturate(self) -> None:
        """Both probabilities are 1 in float64 before normalisation, but the scores differ."""
        spec = classifier([[50], [60], [0]], [0, 0, 0], ["a", "b", "c"], encoding=1)
        assert coremlscope.predict(read_spec(spec), {"x": [1]})["label"] == "b"


class TestInputs:
    @pytest.mark.parametrize(
        ("values", "sentence"),
        [
            ({"x0": 1}, "the input 'x1' .double. is missing"),
            ({"x0": 1, "x1": 2, "x2": 3}, "no input 'x2'"),
            ({"x0": 1, "x1": "2"}, "'x1' takes double"),
        ],
    )
    def test_wrong_inputs_are_errors(self, values: dict[str, Any], sentence: str) -> None:
        with pytest.raises(InputError, match=sentence):
            coremlscope.predict(read_spec(regressor([[1, 2]], [0])), values)

    def test_flexible_arrays_must_hold_one_number_per_weight(self) -> None:
        model = read_spec(regressor([[1, 2, 3]], [0], inputs={"x": array_type(3)}))
        inputs = (
            ir.Feature(
                "x", ir.ArrayFeature(dtype=ir.DType.FP64, shape=(3,), flexibility=ir.RangeShapes(((1, 9),)))
            ),
        )
        interface = msgspec.structs.replace(model.description.main, inputs=inputs)
        flexible = msgspec.structs.replace(model, description=ir.Description({"main": interface}, "main"))
        with FunctionPredictor(flexible) as predictor:
            assert predictor.predict({"x": [1, 1, 1]}) == {"y": 6.0}
            with pytest.raises(CorruptModelError, match="takes 3 numbers, but its inputs hold 4"):
                predictor.predict({"x": [1, 1, 1, 1]})

    def test_arrays_without_a_shape(self) -> None:
        model = read_spec(regressor([[1, 2, 3]], [0], inputs={"x": array_type()}))
        assert coremlscope.predict(model, {"x": [[1, 1, 1]]}) == {"y": 6.0}


@pytest.mark.parametrize(
    ("spec", "error", "sentence"),
    [
        (regressor([[1, 2]], [0], inputs={"x": array_type(3)}), CorruptModelError, "takes 2 numbers"),
        (regressor([[1], [2]], [0, 0]), CorruptModelError, "gives 2 numbers"),
        (regressor([[1]], [0], output=array_type(2)), CorruptModelError, "gives 1 numbers"),
        (
            regressor([[1]], [0], output={"stringType": {}}),
            CorruptModelError,
            "cannot give the described outputs: 'y' .string",
        ),
        (regressor([[1]], [0], inputs={"s": {"stringType": {}}}), UnsupportedModelError, "with string"),
    ],
)
def test_parameters_that_do_not_fit_the_features(
    spec: Message, error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=sentence):
        compile_model(read_spec(spec), tmp_path)


def test_there_is_one_function(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown function 'other'"):
        compile_model(read_spec(regressor([[1]], [0])), tmp_path, function="other")


def test_summary() -> None:
    summary = describe_model(
        read_spec(classifier(WEIGHTS, OFFSETS, ["a", "b", "c"], encoding=1)), list_ops=True
    )
    assert (summary.kind, summary.main.ops) == ("glmClassifier", {"glmClassifier": 1})
    assert (summary.parameters, summary.weights_bytes) == (15, 120)
    assert summary.labels is not None
    assert summary.labels.first == ("a", "b", "c")
    assert [row.outputs for row in summary.ops] == [
        ("tensor<string, []>", "dict<tensor<string, []>, tensor<fp64, []>>")
    ]
    assert summary.main.work is not None
    assert summary.main.work.is_complete
    # A multiply-add for each weight, and a transform for each row.
    assert summary.main.work.flops == 2 * 12 + 3
    assert summary.main.work.weight_bytes == 8 * 15


def test_profile() -> None:
    """All nodes of the engine belong to the one operation."""
    model = read_spec(classifier(WEIGHTS, OFFSETS, ["a", "b", "c"], encoding=1))
    profile = measure(model, Settings(iterations=2, compile_iterations=1, load_iterations=1, warmups=0))
    assert [(row.id, row.type, row.status) for row in joined_rows(profile)] == [
        ("main/0", "glmClassifier", "timed")
    ]
    assert [(op_ids(profile, group), group.share) for group in profile.measurement.groups] == [
        (("main/0",), 1.0)
    ]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_precisions(precision: Any) -> None:
    """No value is declared as fp16, so no value is rounded."""
    model = read_spec(regressor([[1 / 3]], [0.1]))
    assert coremlscope.predict(model, {"x0": 1}, precision=precision) == {"y": 1 / 3 + 0.1}


def test_export(tmp_path: Path) -> None:
    spec = classifier(WEIGHTS, OFFSETS, ["a", "b", "c", "d"])
    (path,) = coremlscope.export(read_spec(spec), tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert json.loads(session.get_modelmeta().custom_metadata_map["coremlscope.labels"])["label"] == list(
        "abcd"
    )
    label, probabilities = session.run(["label", "probabilities"], {"x": X})
    odds = np.exp([0, *SCORES])
    assert label == odds.argmax()
    np.testing.assert_allclose(probabilities, odds / odds.sum(), rtol=1e-12)


def test_in_a_pipeline() -> None:
    first = read_spec(regressor([[1, 2]], [0.5], output={"doubleType": {}}))
    second = read_spec(regressor([[10]], [0], inputs={"y": {"doubleType": {}}}))
    interface = ir.FunctionDescription(
        inputs=first.description.main.inputs, outputs=second.description.main.outputs
    )
    content = ir.Pipeline("pipelineRegressor", ("", ""), (first, second))
    model = ir.Model(spec_version=1, description=ir.Description({"main": interface}, "main"), content=content)
    with open_predictor(model) as predictor:
        assert predictor.predict({"x0": 1, "x1": 2}) == {"y": 55.0}


def test_a_regressor() -> None:
    model = read_spec(regressor([[1, 2], [3, 4]], [5, 6], 2))
    assert model.kind == "glmRegressor"
    assert model.content == GLMRegressor(
        ir.constant(np.float64([[1, 2], [3, 4]])), ir.constant(np.float64([5, 6])), "Probit"
    )


@pytest.mark.parametrize("labels", [("a", "b", "c"), (3, 1, 2)])
def test_a_classifier(labels: tuple[str, ...] | tuple[int, ...]) -> None:
    content = read_spec(classifier([[1], [2], [3]], [4, 5, 6], labels, encoding=1)).content
    assert isinstance(content, GLMClassifier)
    assert (content.transform, content.encoding, content.labels) == ("Logit", "OneVsRest", labels)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (regressor([[1, 2]], [1, 2]), "1 rows of weights and 2 offsets"),
        (regressor([[1, 2], [3]], [1, 2]), r"rows of \[1, 2\] weights"),
        (regressor([[]], [1], inputs={"x": {"doubleType": {}}}), "weights"),
        (regressor([[1]], [1], 7), r"unknown PostEvaluationTransform \(7\)"),
        (classifier([[1], [2]], [1, 2], ["a", "b"]), "2 rows of weights for 2 classes encoded as Reference"),
        (classifier([[1], [2]], [1, 2], ["a", "b"], encoding=1), "2 rows of weights for 2 classes"),
        (classifier([[1], [2]], [1, 2], ["a", "b", "c"], encoding=1), "for 3 classes encoded as OneVsRest"),
        (classifier([[1], [2]], [1, 2], ["a", "b", "c"], transform=1), "Probit for 3 classes"),
        (classifier([[1]], [1], ["a", "b"], encoding=9), r"unknown ClassEncoding \(9\)"),
    ],
)
def test_contradictory_parameters(spec: Message, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_spec(spec)
