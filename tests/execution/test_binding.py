"""Selecting functions and binding them to shapes."""

from __future__ import annotations

import pytest

from coremlscope.base.errors import InputError, UnsupportedModelError, UsageError
from coremlscope.model import ir
from coremlscope.runtime.execution.binding import bind_model, choose_function
from tests.support.ir_models import adder, array_feature, model, perceptron

RANGE = ir.RangeShapes(((1, 4), (3, 3)))


def _shape(bound: object) -> ir.Shape | None:
    type_ = bound.graph.inputs[0].type  # type: ignore[attr-defined]
    assert isinstance(type_, ir.TensorType)
    return type_.shape


def test_flexible_inputs_take_their_default_shape() -> None:
    bound = bind_model(adder(RANGE))
    assert _shape(bound) == (2, 3)
    assert bound.graph.outputs[0].type == ir.TensorType(ir.DType.FP32, (2, 3))


def test_an_allowed_shape_is_bound() -> None:
    bound = bind_model(adder(RANGE), shapes={"x": (4, 3)})
    assert bound.graph.outputs[0].type == ir.TensorType(ir.DType.FP32, (4, 3))


@pytest.mark.parametrize("shape", [(5, 3), (2, 2), (2,)])
def test_a_disallowed_shape_is_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="'x' does not allow the shape"):
        bind_model(adder(RANGE), shapes={"x": shape})


def test_a_fixed_shape_cannot_be_changed() -> None:
    with pytest.raises(InputError, match="fixed shape"):
        bind_model(adder(), shapes={"x": (3, 3)})


def test_the_program_takes_precedence_over_the_description() -> None:
    given = perceptron()
    graph = choose_function(given).function.graph
    features = [array_feature("x", (64,))], [array_feature("y", (64,))]
    assert _shape(bind_model(model(*features, {"main": graph}))) == (1, 64)


def test_functions_are_selected_by_name() -> None:
    assert choose_function(adder()).name == "plus"
    assert choose_function(adder(), "times").function.graph.name == "times"


def test_an_unknown_function_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown function 'time'") as caught:
        choose_function(adder(), "time")
    assert "did you mean 'times'" in caught.value.hint
    assert "plus, times" in caught.value.hint


def test_a_single_function_is_found_under_any_name() -> None:
    given = perceptron()
    assert isinstance(given.content, ir.Program)
    functions = {"other": given.content.functions["main"]}
    renamed = ir.Model(spec_version=9, description=given.description, content=ir.Program(functions=functions))
    assert choose_function(renamed).function is functions["other"]
    assert choose_function(renamed).name == "main"


def test_other_types_of_models_cannot_be_run() -> None:
    tree = ir.Model(
        spec_version=4, description=perceptron().description, content=ir.Opaque("treeEnsembleClassifier")
    )
    with pytest.raises(UnsupportedModelError, match="a tree ensemble classifier cannot be run"):
        choose_function(tree)
