"""The provider's rules as a list."""

from __future__ import annotations

import json

import pytest

from coremlscope.cli import main
from coremlscope.planning.onnxruntime.catalog import list_provider_rules
from coremlscope.planning.onnxruntime.rules.table import OPERATORS


def test_every_operator_and_condition_has_a_source() -> None:
    rules = list_provider_rules()
    assert all(one.source.startswith("onnxruntime/") for one in rules)
    assert {one.op for one in rules if one.id == "taken"} == OPERATORS.keys()


def test_the_verb_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--provider", "onnxruntime", "--op", "Pad", "--json", "-"]) == 0
    first, *others = json.loads(capsys.readouterr().out)["rules"]
    assert first["formats"] == ["NeuralNetwork 1.20 or before", "MLProgram 1.26"]
    assert "pad-mode" in [one["id"] for one in others]


def test_an_operator_without_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--provider", "onnxruntime", "--op", "Abs"]) == 2
