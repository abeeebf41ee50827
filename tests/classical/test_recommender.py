"""The item similarity recommender from file to result."""

from __future__ import annotations

from typing import Any

import pytest

import coremlscope
from coremlscope.base.errors import CorruptModelError
from coremlscope.model import ir
from coremlscope.model.schema import Message
from coremlscope.runtime.execution.predictor import FunctionPredictor
from tests.support.classical_specs import (
    INT64,
    dictionary_type,
    model_spec,
    read_parameters,
    read_spec,
    sequence_type,
)

ITEMS = ["milk", "bread", "eggs", "wine"]
#: Similarity of the row's item to those that are recommended for it.
SIMILAR = {0: {1: 0.9, 2: 0.5}, 1: {0: 0.9, 3: 0.25}, 2: {0: 0.5, 1: 0.125}}
SHIFTS = [0.0, 0.5, 0.0, 0.0]
_ITEMS = {"itemInputFeatureName": "x", "recommendedItemListOutputFeatureName": "y"}


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


def test_scores() -> None:
    model = read_spec(_recommender(dictionary_type()))
    result = coremlscope.predict(model, {"items": {"milk": 2.0, "eggs": 1.0, "beer": 9.0}})
    scores = _scores({0: 2.0, 2: 1.0})
    assert result["scores"] == pytest.approx({"bread": scores[1], "wine": scores[3]})
    assert result["list"] == ["bread", "wine"]


def test_sequences_are_items_of_equal_score() -> None:
    model = read_spec(_recommender(sequence_type()))
    scores = _scores({0: 1.0, 1: 1.0})
    result = coremlscope.predict(model, {"items": ["milk", "bread"]})
    assert result == {
        "list": ["eggs", "wine"],
        "scores": pytest.approx({"eggs": scores[2], "wine": scores[3]}),
    }


def test_number_restriction_and_exclusion() -> None:
    with FunctionPredictor(read_spec(_recommender(dictionary_type(), "number", "only", "not"))) as predictor:

        def ask(**more: Any) -> Any:
            return predictor.predict({"items": {"milk": 1.0}, **more})["list"]

        assert ask() == ["eggs", "bread", "wine"]
        assert ask(number=2) == ["eggs", "bread"]
        assert ask(number=0) == []
        assert ask(only=["wine", "bread", "milk"]) == ["bread", "wine"]
        assert ask(**{"not": ["eggs"]}) == ["bread", "milk", "wine"]


def test_items_that_are_numbers() -> None:
    ids = {"itemInt64Ids": {"vector": [10, 11, 12, 13]}}
    model = read_spec(_recommender(dictionary_type("int64"), names=ids))
    assert coremlscope.predict(model, {"items": {10: 1.0}})["list"] == [12, 11, 13]


def test_synthetic_inputs_are_items() -> None:
    model = read_spec(_recommender(dictionary_type(), list=sequence_type()))
    assert isinstance(model.content, ir.Classical)
    with FunctionPredictor(model) as predictor:
        from coremlscope.model.features import dummy_values
        from coremlscope.runtime.execution.binding import choose_function

        made = dummy_values(predictor.description, choose_function(model).function)
    assert set(made["items"]) <= set(ITEMS)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({**_ITEMS, "itemItemSimilarities": [{"itemId": 2**50}]}, "without names"),
        (
            {**_ITEMS, "itemItemSimilarities": [{"itemId": 3}], "itemStringIds": {"vector": ["a"]}},
            "the item 3 of 1",
        ),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("itemSimilarityRecommender", parameters)
