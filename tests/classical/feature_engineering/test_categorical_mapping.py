"""Categorical mappings, from file to result."""

from __future__ import annotations

from typing import Any

import pytest

from coremlscope.base.errors import CorruptModelError, InputError
from tests.support.classical_specs import (
    INT64,
    STRING,
    predict_value,
    read_parameters,
)

TO_NUMBERS = {"stringToInt64Map": {"map": [{"key": "a", "value": 5}, {"key": "b", "value": -(2**50)}]}}
TO_WORDS = {"int64ToStringMap": {"map": [{"key": 5, "value": "five"}, {"key": -1, "value": "less"}]}}


def test_both_ways() -> None:
    assert predict_value("categoricalMapping", TO_NUMBERS, STRING, INT64, "b") == -(2**50)
    assert predict_value("categoricalMapping", TO_WORDS, INT64, STRING, -1) == "less"


def test_defaults() -> None:
    assert predict_value("categoricalMapping", {**TO_NUMBERS, "int64Value": 9}, STRING, INT64, "z") == 9
    assert predict_value("categoricalMapping", {**TO_WORDS, "strValue": "?"}, INT64, STRING, 0) == "?"


def test_unknown_keys_without_a_default() -> None:
    for parameters, in_, out, value in (
        (TO_NUMBERS, STRING, INT64, "z"),
        (TO_WORDS, INT64, STRING, 0),
    ):
        with pytest.raises(InputError, match="unknown category"):
            predict_value("categoricalMapping", parameters, in_, out, value)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({}, "no mapping"),
        ({"stringToInt64Map": {}, "strValue": "a"}, "a default of another type"),
    ],
)
def test_contradictory_parameters(parameters: Any, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_parameters("categoricalMapping", parameters)
