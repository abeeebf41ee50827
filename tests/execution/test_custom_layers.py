"""Custom layers: profiles replace them, predictions are an error."""

from __future__ import annotations

import numpy as np
import pytest
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder

import coremlscope
from coremlscope.base.errors import UnsupportedOpError
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.results.profile import Profile
from tests.support.measuring import joined_rows, op_ids


def _model(*, exact: bool = True, declared: tuple[int, ...] = (), last: bool = False) -> ir.Model:
    """A product, a custom layer and a product, of images of one channel."""
    builder = NeuralNetworkBuilder(
        [("x", datatypes.Array(1, 4, 6))],
        [("y", datatypes.Array(1, 4, 6))],
        disable_rank5_shape_mapping=exact,
    )
    builder.add_activation("before", "LINEAR", "x", "a", [2.0, 0.0])
    builder.add_activation("mine", "RELU", "a", "y" if last else "b")
    layer = builder.spec.neuralNetwork.layers[-1]
    layer.custom.className = "Sharpener"
    if declared:
        layer.outputTensor.add(rank=len(declared), dimValue=declared)
    if not last:
        builder.add_activation("after", "SIGMOID", "b", "y")
    return container.read(builder.spec.SerializeToString())


def _profile(model: ir.Model) -> Profile:
    return coremlscope.profile(
        model, iterations=2, effort=coremlscope.Effort(compile_iterations=1, load_iterations=1, warmups=1)
    )


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "sequences"])
def test_a_profile_replaces_them(exact: bool) -> None:
    profile = _profile(_model(exact=exact))
    rows = {row.name: row for row in joined_rows(profile)}
    assert (rows["mine"].type, rows["mine"].status, rows["mine"].group) == ("custom", "not run", -1)
    assert (rows["before"].status, rows["after"].status) == ("timed", "timed")
    found = next(f for f in profile.all_findings if f.id == "layer-not-run")
    assert found.ops == (rows["mine"].id,)
    assert found.text == (
        "The layer mine (class Sharpener) was not run, because its class Sharpener is part of an app, "
        "and not in the file: synthetic values were used, of the shape that follows from its input, so "
        "times lack its work and results mean nothing."
    )
    assert not any(f.id == "operations-not-run" for f in profile.all_findings)
    # The values of the layer are not computed in a prediction.
    assert all(op_ids(profile, group) for group in profile.measurement.groups)


@pytest.mark.parametrize(
    ("model", "shape", "source"),
    [
        (_model(declared=(2, 3)), "[2, 3]", "the layer's declaration in the file"),
        (_model(declared=(-1, 3)), "[1, 4, 6]", "its input"),
        (_model(last=True), "[1, 4, 6]", "the description of the output 'y'"),
        (
            _model(exact=False, declared=(5, 2, 7, 1, 1)),
            "[10, 7, 1, 1]",
            "the layer's declaration in the file",
        ),
        (_model(exact=False, declared=(7,)), "[1, 7, 1, 1]", "the layer's declaration in the file"),
    ],
)
def test_the_shape_of_their_results(model: ir.Model, shape: str, source: str) -> None:
    profile = _profile(model)
    row = next(row for row in profile.ops if row.type == "custom")
    assert row.outputs == (f"tensor<fp32, {shape}>",)
    assert any(f"follows from {source}," in finding.text for finding in profile.all_findings)


def test_a_prediction_is_an_error() -> None:
    with pytest.raises(UnsupportedOpError, match=r"custom .*its class Sharpener is part of an app"):
        coremlscope.predict(_model(), {"x": np.zeros((1, 4, 6), np.float32)})


def test_inspect_counts_them() -> None:
    model = _model()
    assert coremlscope.inspect(model).main.ops["custom"] == 1


def _custom(builder: NeuralNetworkBuilder, name: str, inputs: list[str], output: str) -> None:
    """Adds a custom layer whose output shape is not declared."""
    builder.add_activation(name, "RELU", inputs[0], output)
    layer = builder.nn_spec.layers[-1]
    layer.input.extend(inputs[1:])
    layer.custom.className = "Mystery"


def _chain(*, exact: bool, mode: str | None = None) -> ir.Model:
    """Custom layers that read the sum of a custom layer's result and a tensor of another shape."""
    builder = NeuralNetworkBuilder(
        [("x", datatypes.Array(3, 4, 6))],
        [("y", datatypes.Array(3))],
        mode=mode,
        disable_rank5_shape_mapping=exact,
    )
    _custom(builder, "one", ["x"], "a")
    if exact:
        builder.add_transpose("turn", (2, 1, 0), "x", "t")
        builder.add_add_broadcastable("add_1", ["a", "t"], "add_1_output")
    else:
        builder.add_permute("turn", (0, 2, 3, 1), "x", "t")
        builder.add_elementwise("add_1", ["a", "t"], "add_1_output", "ADD")
    _custom(builder, "two", ["add_1_output"], "b")
    _custom(builder, "three", ["b", "a"], "c")
    builder.add_activation("last", "SIGMOID", "c", "y")
    if mode == "classifier":
        builder.set_class_labels(["p", "q", "r"], predicted_feature_name="label", prediction_blob="y")
    return container.read(builder.spec.SerializeToString())


@pytest.mark.parametrize("mode", [None, "classifier"])
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "sequences"])
def test_a_chain_of_unknown_shapes_is_reported_with_its_cause(exact: bool, mode: str | None) -> None:
    model = _chain(exact=exact, mode=mode)
    assert coremlscope.inspect(model).main.ops["custom"] == 3
    assert isinstance(model.content, ir.Program)
    (function,) = model.content.functions.values()
    problem = next(layer.problem for layer in function.layers if layer.name == "add_1")
    assert problem.endswith(
        "do not broadcast; it depends on the custom layer 'one' (class Mystery), whose shape is not in the "
        "file and is assumed to be that of its input"
    )
    assert coremlscope.plan(model, "m1").plans
    assert coremlscope.estimate(model, "m1").estimates
    with pytest.raises(UnsupportedOpError, match=r"add.* depends on the custom layer 'one'"):
        _profile(model)
    with pytest.raises(UnsupportedOpError, match="its class Mystery is part of an app"):
        coremlscope.predict(model, {"x": np.zeros((3, 4, 6), np.float32)})


def test_a_declared_shape_is_not_a_guess() -> None:
    builder = NeuralNetworkBuilder(
        [("x", datatypes.Array(4))], [("y", datatypes.Array(4))], disable_rank5_shape_mapping=True
    )
    _custom(builder, "one", ["x"], "a")
    builder.nn_spec.layers[-1].outputTensor.add(rank=1, dimValue=[5])
    builder.add_add_broadcastable("sum", ["a", "x"], "y")
    model = container.read(builder.spec.SerializeToString())
    assert isinstance(model.content, ir.Program)
    (function,) = model.content.functions.values()
    assert function.layers[-1].problem == "shapes [5], [4] do not broadcast"
