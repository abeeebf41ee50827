"""Functions that contradict themselves or their description are refused, however they are used."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from coremlscope import ir
from coremlscope.errors import CorruptModelError, MissingWeightsError
from coremlscope.execution.export import export_onnx
from coremlscope.execution.lowering import lower_function
from tests.support.ir_models import absent_weights, accumulator, adder, array_feature, perceptron


def _described(model: ir.Model, **parts: tuple[ir.Feature, ...]) -> ir.Model:
    """The model with another description."""
    interface = dataclasses.replace(model.description.main, **parts)
    functions = dict.fromkeys(model.description.functions, interface)
    return dataclasses.replace(model, description=dataclasses.replace(model.description, functions=functions))


def test_functions_and_states() -> None:
    assert lower_function(adder(), "times").function == "times"
    assert lower_function(accumulator()).random_weights is None


def test_an_output_that_is_promised_and_not_given() -> None:
    model = _described(perceptron(), outputs=(array_feature("other", (1, 64)),))
    with pytest.raises(CorruptModelError, match=r"does not give an output .* 'other'"):
        lower_function(model)


def test_an_input_that_is_taken_and_not_described(tmp_path: Path) -> None:
    model = _described(perceptron(), inputs=(array_feature("other", (1, 64)),))
    with pytest.raises(CorruptModelError, match=r"takes an input .* 'x'"):
        export_onnx(model, tmp_path / "x.onnx")


def test_absent_weights(tmp_path: Path) -> None:
    model = absent_weights(perceptron())
    with pytest.raises(MissingWeightsError, match="1 weights"):
        export_onnx(model, tmp_path / "x.onnx")
    assert lower_function(model, random_weights=3).random_weights == 3
