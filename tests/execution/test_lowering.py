"""Lowering functions, and the errors of those that contradict themselves or their description."""

from __future__ import annotations

from pathlib import Path

import msgspec.structs
import pytest

from coremlscope.base.errors import CorruptModelError, MissingWeightsError
from coremlscope.model import ir
from coremlscope.runtime.execution.export import export_onnx
from coremlscope.runtime.execution.lowering import lower_function
from tests.support.ir_models import absent_weights, accumulator, adder, array_feature, perceptron


def _described(model: ir.Model, **parts: tuple[ir.Feature, ...]) -> ir.Model:
    """The model with another description."""
    interface = msgspec.structs.replace(model.description.main, **parts)
    functions = dict.fromkeys(model.description.functions, interface)
    return msgspec.structs.replace(
        model, description=msgspec.structs.replace(model.description, functions=functions)
    )


def test_functions_and_states() -> None:
    assert lower_function(adder(), "times").function == "times"
    assert lower_function(accumulator()).random_weights is None


def test_a_missing_output() -> None:
    model = _described(perceptron(), outputs=(array_feature("other", (1, 64)),))
    with pytest.raises(CorruptModelError, match=r"lacks outputs of its description: 'other'"):
        lower_function(model)


def test_an_undescribed_input(tmp_path: Path) -> None:
    model = _described(perceptron(), inputs=(array_feature("other", (1, 64)),))
    with pytest.raises(CorruptModelError, match=r"has inputs that its description lacks: 'x'"):
        export_onnx(model, tmp_path / "x.onnx")


def test_missing_weights(tmp_path: Path) -> None:
    model = absent_weights(perceptron())
    with pytest.raises(MissingWeightsError, match="weights are missing: 1 constant"):
        export_onnx(model, tmp_path / "x.onnx")
    assert lower_function(model, random_weights=3).random_weights == 3
