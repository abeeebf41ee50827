"""The translation of whole networks: layouts, names, preprocessing, outputs and unsupported layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder

import coremlscope
from coremlscope.base.errors import CorruptModelError, UnsupportedOpError
from coremlscope.formats import container
from coremlscope.formats.neuralnetwork.layers import LAYERS
from coremlscope.model import ir
from coremlscope.runtime.execution.binding import bind_model
from tests.support.networks import network, predict, random
from tests.support.planned_rows import rows

_X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)


def _builder(
    shape: tuple[int, ...] = (3, 4, 5),
    *,
    exact: bool = False,
    output: tuple[int, ...] | None = None,
    **options: Any,
) -> NeuralNetworkBuilder:
    given = datatypes.Array(*output) if output else None
    return NeuralNetworkBuilder(
        [("x", datatypes.Array(*shape))], [("y", given)], disable_rank5_shape_mapping=exact, **options
    )


def _read(builder: NeuralNetworkBuilder) -> ir.Model:
    return container.read(builder.spec.SerializeToString())


def _ops(model: ir.Model) -> list[ir.Op]:
    assert isinstance(model.content, ir.Program)
    (function,) = model.content.functions.values()
    return list(function.graph.ops)


def test_legacy_mapping_has_rank_5_inside_and_rank_3_outside() -> None:
    builder = _builder()
    builder.add_activation("twice", "LINEAR", "x", "mid", [2.0, 0.0])
    builder.add_activation("relu", "RELU", "mid", "y")
    model = _read(builder)
    assert model.kind == "neuralNetwork"
    relu = next(op for op in _ops(model) if op.type == "relu")
    assert relu.outputs[0].type == ir.TensorType(ir.DType.FP32, (1, 3, 4, 5))
    np.testing.assert_allclose(coremlscope.predict(model, {"x": _X})["y"], np.maximum(2 * _X, 0), rtol=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test_arrays_without_an_element_type_are_doubles(exact: bool) -> None:
    builder = network({"x": (2, 1, 3)}, exact=exact)
    builder.add_activation("line", "LINEAR", "x", "y", [2.0, 1.0])
    for feature in (*builder.spec.description.input, *builder.spec.description.output):
        feature.type.multiArrayType.dataType = 0
    x = random(2, 1, 3)
    y = predict(builder, x=x)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, 2 * x + 1, rtol=1e-6)


def test_exact_mapping_keeps_shapes() -> None:
    builder = _builder((4, 5), exact=True)
    builder.add_activation("relu", "RELU", "x", "y")
    model = _read(builder)
    (op,) = _ops(model)
    assert op.outputs == (ir.Value("y", ir.TensorType(ir.DType.FP32, (4, 5))),)
    np.testing.assert_array_equal(coremlscope.predict(model, {"x": _X[0]})["y"], np.maximum(_X[0], 0))


def test_operations_refer_to_their_layer() -> None:
    builder = _builder()
    builder.add_activation("the author's name", "RELU", "x", "y")
    relu = next(op for op in _ops(_read(builder)) if op.type == "relu")
    assert relu.layer == ir.Layer(name="the author's name", type="activation")
    assert relu.name == "the author's name"


def test_blob_that_is_written_twice() -> None:
    builder = _builder((4,), exact=True)
    builder.add_activation("one", "LINEAR", "x", "y", [1.0, 1.0])
    builder.add_activation("two", "LINEAR", "y", "y", [3.0, 0.0])
    result = coremlscope.predict(_read(builder), {"x": _X[0, :, 0]})["y"]
    np.testing.assert_allclose(result, 3 * (_X[0, :, 0] + 1), rtol=1e-6)


def test_output_with_the_name_of_an_input() -> None:
    builder = _builder((4,), exact=True)
    builder.add_activation("unused", "RELU", "x", "z")
    builder.spec.description.output[0].name = "x"
    given = _X[0, :, 0]
    np.testing.assert_array_equal(coremlscope.predict(_read(builder), {"x": given})["x"], given)

    builder.add_copy("there", "x", "copied")
    builder.add_copy("back", "copied", "x")
    np.testing.assert_array_equal(coremlscope.predict(_read(builder), {"x": given})["x"], given)

    builder.add_activation("another", "RELU", "x", "x")
    with pytest.raises(CorruptModelError, match="have the same name"):
        _read(builder)


def test_requested_shape() -> None:
    from coremltools.models.neural_network import flexible_shape_utils

    builder = _builder((4, 5), exact=True)
    builder.add_activation("relu", "RELU", "x", "y")
    shapes = {"x": ([1, 1], [9, 9])}
    flexible_shape_utils.set_multiarray_ndshape_range(builder.spec, "x", shapes["x"][0], shapes["x"][1])
    model = _read(builder)
    bound = bind_model(model, shapes={"x": (7, 2)})
    assert bound.graph.outputs[0].type == ir.TensorType(ir.DType.FP32, (7, 2))


def test_scaler_biases_follow_the_channel_order() -> None:
    builder = _builder()
    builder.add_activation("same", "LINEAR", "x", "y", [1.0, 0.0])
    builder.set_pre_processing_parameters(
        image_input_names=["x"], is_bgr=True, red_bias=1.0, green_bias=2.0, blue_bias=3.0, image_scale=0.5
    )
    pixels = np.random.default_rng(1).integers(0, 256, (4, 5, 3)).astype(np.uint8)
    from PIL import Image

    result = coremlscope.predict(_read(builder), {"x": Image.fromarray(pixels)})["y"]
    expected = pixels[..., ::-1].transpose(2, 0, 1) * 0.5 + np.array([3.0, 2.0, 1.0])[:, None, None]
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_layer_without_a_translation_prevents_only_running() -> None:
    builder = _builder((4,), exact=True)
    builder.add_activation("fine", "RELU", "x", "mid")
    layer = builder.spec.neuralNetwork.layers.add(name="odd", input=["mid"], output=["y"])
    layer.innerProduct.inputChannels = 3
    layer.innerProduct.outputChannels = 2
    model = _read(builder)
    assert [op.type for op in _ops(model)] == ["relu", "innerProduct"]
    assert coremlscope.inspect(model).kind == "neuralNetwork"
    problem = _ops(model)[-1].layer
    assert problem is not None
    assert "it has 0 weights instead of 6 (2 x 3)" in problem.problem
    with pytest.raises(UnsupportedOpError, match="it has 0 weights"):
        coremlscope.predict(model, {"x": _X[0, :, 0]})


def test_undefined_blob() -> None:
    builder = _builder((4,), exact=True)
    builder.add_activation("relu", "RELU", "nowhere", "y")
    with pytest.raises(CorruptModelError, match=r"the input 'nowhere' of the layer .* is undefined"):
        _read(builder)


def test_plans_use_half_precision() -> None:
    builder = _builder((64, 32, 32))
    builder.add_activation("relu", "RELU", "x", "y")
    profile = coremlscope.plan(_read(builder), "m1", os="14.5")
    (plan,) = profile.plans
    relu = next(op for op in rows(plan) if op.type == "relu")
    assert relu.supported["neural_engine"] == "yes"
    assert any("layers of a neural network" in note for note in plan.notes)


def test_every_layer_type_has_a_translation() -> None:
    from coremlscope.model import schema

    fields = schema.message_class("NeuralNetworkLayer").DESCRIPTOR.oneofs_by_name["layer"].fields
    # Custom layers are implemented by an app, so they have no translation.
    assert set(LAYERS) == {field.name for field in fields} - {"custom"}
