"""Neural networks behind coremltools' classes: structure, plans, classifiers, errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
from coremltools.models import datatypes
from coremltools.models.compute_plan import MLComputePlan, MLModelStructure
from coremltools.models.neural_network import NeuralNetworkBuilder

import coremlscope


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    coremlscope.install()
    yield
    coremlscope.uninstall()


def _network() -> NeuralNetworkBuilder:
    builder = NeuralNetworkBuilder(
        [("x", datatypes.Array(8))], [("y", None)], disable_rank5_shape_mapping=True
    )
    builder.add_inner_product(
        "dense",
        W=np.eye(8),
        b=None,
        input_channels=8,
        output_channels=8,
        has_bias=False,
        input_name="x",
        output_name="mid",
    )
    builder.add_activation("act", "RELU", "mid", "y")
    return builder


def test_structure_and_plan() -> None:
    path = ct.models.utils.compile_model(_network().spec)
    layers = MLModelStructure.load_from_path(path).neuralnetwork.layers
    assert [(row.name, row.type, row.input_names, row.output_names) for row in layers] == [
        ("dense", "inner_product", ["x"], ["mid"]),
        ("act", "activation", ["mid"], ["y"]),
    ]
    plan = MLComputePlan.load_from_path(path)
    assert plan.model_structure.program is None
    for layer in plan.model_structure.neuralnetwork.layers:
        usage = plan.get_compute_device_usage_for_neuralnetwork_layer(layer)
        assert type(usage.preferred_compute_device) in set(map(type, usage.supported_compute_devices))
    assert plan.get_compute_device_usage_for_neuralnetwork_layer(layers[0]) is None


@pytest.mark.parametrize("labels", [["cat", "dog", "fox"], [7, 11, 13]], ids=["strings", "integers"])
@pytest.mark.parametrize("named", [True, False], ids=["probabilities", "last layer"])
def test_classifier(labels: list[str] | list[int], named: bool, tmp_path: Path) -> None:
    builder = NeuralNetworkBuilder(
        [("x", datatypes.Array(3))], [("scores", datatypes.Array(3))], mode="classifier"
    )
    builder.add_activation("twice", "LINEAR", "x", "scores", [2.0, 0.0])
    builder.set_class_labels(labels, "label", prediction_blob="scores" if named else "")
    path = tmp_path / "classifier.mlmodel"
    ct.models.utils.save_spec(builder.spec, str(path))
    found = ct.models.MLModel(str(path)).predict({"x": np.array([1.0, 3.0, 2.0])})
    assert found["label"] == labels[1]
    (scores,) = (value for name, value in found.items() if name != "label")
    assert scores == pytest.approx(dict(zip(labels, (2.0, 6.0, 4.0), strict=True)))


def test_a_wrong_shape_is_an_error() -> None:
    model = ct.models.MLModel(_network().spec)
    with pytest.raises(RuntimeError, match="does not match the shape"):
        model.predict({"x": np.zeros(9)})


@pytest.mark.parametrize("shape", [(40, 1, 12), (40, 1, 12, 1, 1)])
def test_a_sequence_may_have_three_or_five_dimensions(shape: tuple[int, ...]) -> None:
    builder = NeuralNetworkBuilder([("x", datatypes.Array(12))], [("y", None)])
    builder.add_activation("line", "LINEAR", "x", "y", [2.0, 1.0])
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    y = ct.models.MLModel(builder.spec).predict({"x": x})["y"]
    np.testing.assert_allclose(y.reshape(shape), 2 * x + 1, rtol=1e-5)
    with pytest.raises(RuntimeError, match=r"MultiArray shape \(40 x 12\) does not match the shape \(12\)"):
        ct.models.MLModel(builder.spec).predict({"x": x.reshape(40, 12)})


def test_an_unsupported_layer_is_an_error() -> None:
    builder = _network()
    builder.spec.neuralNetwork.layers[1].custom.className = "Mine"
    with pytest.warns(RuntimeWarning, match="Mine|custom"):
        model = ct.models.MLModel(builder.spec)
    with pytest.raises(Exception, match="custom"):
        model.predict({"x": np.zeros(8)})
