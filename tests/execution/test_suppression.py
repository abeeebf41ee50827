"""Non-maximum suppression and the recommender from file to result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope import ir
from coremlscope.execution.predictor import Predictor
from coremlscope.schema import Message
from tests.support.classical_specs import (
    DOUBLE,
    INT64,
    array_type,
    dictionary_type,
    model_spec,
    read_spec,
    sequence_type,
)


def _suppressor(boxes: int = 0, classes: int = 2, rows: int | None = None, **parameters: Any) -> Message:
    given = {
        "pickTop": {"perClass": True}, "iouThreshold": 0.5, "confidenceThreshold": 0.3,
        "stringClassLabels": {"vector": ["cat", "dog"]},
        "confidenceInputFeatureName": "raw_c", "coordinatesInputFeatureName": "raw_b",
        "iouThresholdInputFeatureName": "iou", "confidenceThresholdInputFeatureName": "least",
        "confidenceOutputFeatureName": "c", "coordinatesOutputFeatureName": "b", **parameters,
    }  # fmt: skip
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
    """The rows that are kept, as the specification tells it."""
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
    with Predictor(model) as predictor:
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
    with Predictor(read_spec(_suppressor())) as predictor:
        for count in (1, 5, 0):
            c, b = _boxes(count, count)
            result = predictor.predict({"raw_c": c, "raw_b": b, "least": 0.0, "iou": 1.0})
            assert result["b"].shape == (count, 4)


ITEMS = ["milk", "bread", "eggs", "wine"]
#: Similarity of the row's item to those that are recommended for it.
SIMILAR = {0: {1: 0.9, 2: 0.5}, 1: {0: 0.9, 3: 0.25}, 2: {0: 0.5, 1: 0.125}}
SHIFTS = [0.0, 0.5, 0.0, 0.0]


def _recommender(items: Any, *more: str, names: Any = None, **outputs: Any) -> Message:
    rows = [
        {
            "itemId": i,
            "similarItemList": [{"itemId": k, "similarityScore": s} for k, s in SIMILAR.get(i, {}).items()],
            "itemScoreAdjustment": SHIFTS[i],
        }
        for i in range(4)
    ]
    parameters: dict[str, Any] = {"itemItemSimilarities": rows, "itemInputFeatureName": "items"}
    parameters |= names or {"itemStringIds": {"vector": ITEMS}}
    element = "string" if "itemStringIds" in parameters else "int64"
    fields = {"number": "numRecommendations", "only": "itemRestriction", "not": "itemExclusion"}
    inputs = {"items": items}
    for name in more:
        parameters[f"{fields[name]}InputFeatureName"] = name
        inputs[name] = INT64 if name == "number" else sequence_type(element)
    given = outputs or {"list": sequence_type(element), "scores": dictionary_type(element)}
    for name, what in (("list", "List"), ("scores", "Score")):
        if name in given:
            parameters[f"recommendedItem{what}OutputFeatureName"] = name
    return model_spec("itemSimilarityRecommender", parameters, inputs, given, optional=more)


def _scores(given: dict[int, float]) -> list[float]:
    return [
        sum(SIMILAR.get(i, {}).get(k, 0.0) * (score - SHIFTS[k]) for i, score in given.items())
        for k in range(4)
    ]


class TestRecommender:
    def test_scores(self) -> None:
        model = read_spec(_recommender(dictionary_type()))
        result = coremlscope.predict(model, {"items": {"milk": 2.0, "eggs": 1.0, "beer": 9.0}})
        scores = _scores({0: 2.0, 2: 1.0})
        assert result["scores"] == pytest.approx({"bread": scores[1], "wine": scores[3]})
        assert result["list"] == ["bread", "wine"]

    def test_sequences_are_items_of_equal_score(self) -> None:
        model = read_spec(_recommender(sequence_type()))
        scores = _scores({0: 1.0, 1: 1.0})
        result = coremlscope.predict(model, {"items": ["milk", "bread"]})
        assert result == {
            "list": ["eggs", "wine"],
            "scores": pytest.approx({"eggs": scores[2], "wine": scores[3]}),
        }

    def test_number_restriction_and_exclusion(self) -> None:
        with Predictor(read_spec(_recommender(dictionary_type(), "number", "only", "not"))) as predictor:

            def ask(**more: Any) -> Any:
                return predictor.predict({"items": {"milk": 1.0}, **more})["list"]

            assert ask() == ["eggs", "bread", "wine"]
            assert ask(number=2) == ["eggs", "bread"]
            assert ask(number=0) == []
            assert ask(only=["wine", "bread", "milk"]) == ["bread", "wine"]
            assert ask(**{"not": ["eggs"]}) == ["bread", "milk", "wine"]

    def test_items_that_are_numbers(self) -> None:
        ids = {"itemInt64Ids": {"vector": [10, 11, 12, 13]}}
        model = read_spec(_recommender(dictionary_type("int64"), names=ids))
        assert coremlscope.predict(model, {"items": {10: 1.0}})["list"] == [12, 11, 13]

    def test_made_up_inputs_are_items(self) -> None:
        model = read_spec(_recommender(dictionary_type(), list=sequence_type()))
        assert isinstance(model.content, ir.Classical)
        with Predictor(model) as predictor:
            from coremlscope.execution.binding import choose_function
            from coremlscope.features import dummy_values

            made = dummy_values(predictor.description, choose_function(model).function)
        assert set(made["items"]) <= set(ITEMS)
