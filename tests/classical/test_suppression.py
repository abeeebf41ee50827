"""Non-maximum suppression from file to result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import CorruptModelError
from coremlscope.model.schema import Message
from coremlscope.runtime.execution.predictor import FunctionPredictor
from tests.support.classical_specs import (
    DOUBLE,
    array_type,
    model_spec,
    read_parameters,
    read_spec,
)


def _suppressor(boxes: int = 0, classes: int = 2, rows: int | None = None, **parameters: Any) -> Message:
    given = {
        "pickTop": {"perClass": True},
        "iouThreshold": 0.5,
        "confidenceThreshold": 0.3,
        "stringClassLabels": {"vector": ["cat", "dog"]},
        "confidenceInputFeatureName": "raw_c",
        "coordinatesInputFeatureName": "raw_b",
        "iouThresholdInputFeatureName": "iou",
        "confidenceThresholdInputFeatureName": "least",
        "confidenceOutputFeatureName": "c",
        "coordinatesOutputFeatureName": "b",
        **parameters,
    }
    shapes = [(boxes, classes), (boxes, 4)] if boxes else [(), ()]
    outs = [(), ()] if rows is None else [(rows, classes), (rows, 4)]
    inputs = {
        "raw_c": array_type(*shapes[0]),
        "raw_b": array_type(*shapes[1]),
        "iou": DOUBLE,
        "least": DOUBLE,
    }
    outputs = {"c": array_type(*outs[0]), "b": array_type(*outs[1])}
    return model_spec("nonMaximumSuppression", given, inputs, outputs, optional=["iou", "least"])


def _reference(c: np.ndarray, b: np.ndarray, iou: float, least: float, *, per_class: bool) -> list[int]:
    """The rows that are kept according to the specification."""
    best, label = c.max(1), c.argmax(1)
    order = [int(i) for i in np.argsort(-best, kind="stable") if best[i] >= least]
    kept: list[int] = []
    for i in order:
        for k in kept:
            low = np.maximum(b[i, :2] - b[i, 2:] / 2, b[k, :2] - b[k, 2:] / 2)
            high = np.minimum(b[i, :2] + b[i, 2:] / 2, b[k, :2] + b[k, 2:] / 2)
            inside = np.prod(np.maximum(high - low, 0))
            union = np.prod(b[i, 2:]) + np.prod(b[k, 2:]) - inside
            if inside / union > iou and (not per_class or label[i] == label[k]):
                break
        else:
            kept.append(i)
    return kept


def _boxes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((count, 2)), np.hstack([rng.random((count, 2)), 0.1 + 0.4 * rng.random((count, 2))])


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_boxes(per_class: bool, seed: int) -> None:
    c, b = _boxes(40, seed)
    model = read_spec(_suppressor(40, pickTop={"perClass": per_class}))
    with FunctionPredictor(model) as predictor:
        for thresholds in ({}, {"iou": 0.1}, {"least": 0.8}, {"iou": 1.0, "least": 0.0}, {"least": 2.0}):
            iou, least = thresholds.get("iou", 0.5), thresholds.get("least", 0.3)
            kept = _reference(c, b, iou, least, per_class=per_class)
            result = predictor.predict({"raw_c": c, "raw_b": b, **thresholds})
            np.testing.assert_array_equal(result["c"], c[kept])
            np.testing.assert_array_equal(result["b"], b[kept])


def test_boxes_at_the_threshold_are_kept() -> None:
    c, b = np.array([[0.3, 0.0], [0.0, np.nextafter(0.3, 0)]]), np.array([[0.0, 0, 1, 1], [9.0, 9, 1, 1]])
    result = coremlscope.predict(read_spec(_suppressor(2)), {"raw_c": c, "raw_b": b})
    np.testing.assert_array_equal(result["c"], c[:1])


@pytest.mark.parametrize("rows", [1, 30])
def test_a_fixed_number_of_rows(rows: int) -> None:
    c, b = _boxes(12, 1)
    kept = _reference(c, b, 0.5, 0.3, per_class=True)[:rows]
    result = coremlscope.predict(read_spec(_suppressor(12, rows=rows)), {"raw_c": c, "raw_b": b})
    for name, given in (("c", c), ("b", b)):
        assert len(result[name]) == rows
        np.testing.assert_array_equal(result[name][: len(kept)], given[kept])
        assert not result[name][len(kept) :].any()


def test_any_number_of_boxes() -> None:
    with FunctionPredictor(read_spec(_suppressor())) as predictor:
        for count in (1, 5, 0):
            c, b = _boxes(count, count)
            result = predictor.predict({"raw_c": c, "raw_b": b, "least": 0.0, "iou": 1.0})
            assert result["b"].shape == (count, 4)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({}, "no name of its confidenceInput"),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("nonMaximumSuppression", parameters)
