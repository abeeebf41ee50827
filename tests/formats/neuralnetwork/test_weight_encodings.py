"""How weights are kept: in halves, quantised, looked up in tables, packed bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from coremltools import models
from coremltools.models import MLModel
from coremltools.models.neural_network import NeuralNetworkBuilder, quantization_utils

import coremlscope
from coremlscope.describe.weights import group_weights
from coremlscope.formats import container
from coremlscope.formats.neuralnetwork.weights import unpack
from coremlscope.model import ir
from coremlscope.results.model import WeightGroup
from tests.support.networks import layers_of, network, predict, random, read

LINEAR, TABLE = models._QUANTIZATION_MODE_LINEAR_QUANTIZATION, models._QUANTIZATION_MODE_LOOKUP_TABLE_LINEAR
X = random(3, 6)
W = random(5, 6, seed=1)


def _product() -> NeuralNetworkBuilder:
    builder = network({"x": X.shape}, exact=True)
    builder.add_inner_product("product", W, None, 6, 5, False, "x", "y")
    return builder


def _quantized(bits: int, mode: str = LINEAR) -> tuple[ir.Model, ir.Model]:
    """A network whose weights coremltools has quantised, and the same after it has undone that."""
    spec = _product().spec
    quantization_utils._quantize_nn_spec(spec.neuralNetwork, bits, mode)
    kept = container.read(spec.SerializeToString())
    quantization_utils._dequantize_nn_spec(spec.neuralNetwork)
    return kept, container.read(spec.SerializeToString())


def _group(model: ir.Model) -> WeightGroup:
    assert isinstance(model.content, ir.Program)
    (group,) = group_weights(model.content)
    return group


@pytest.mark.parametrize("bits", range(1, 9))
def test_linear_quantisation_by_channel(bits: int) -> None:
    kept, plain = _quantized(bits)
    expected = coremlscope.predict(plain, {"x": X})["y"]
    np.testing.assert_allclose(coremlscope.predict(kept, {"x": X})["y"], expected, rtol=1e-4, atol=1e-5)
    # Codes, rounded up to bytes, and one scale and one bias for each of five channels.
    assert _group(kept) == WeightGroup(
        storage=f"affine uint{bits}", dtype="fp32", tensors=1, parameters=30, nbytes=-(-30 * bits // 8) + 40
    )


@pytest.mark.parametrize("bits", range(1, 9))
def test_look_up_tables(bits: int) -> None:
    kept, plain = _quantized(bits, TABLE)
    expected = coremlscope.predict(plain, {"x": X})["y"]
    np.testing.assert_allclose(coremlscope.predict(kept, {"x": X})["y"], expected, rtol=1e-4, atol=1e-5)
    assert _group(kept) == WeightGroup(
        storage=f"LUT {bits}-bit",
        dtype="fp32",
        tensors=1,
        parameters=30,
        nbytes=-(-30 * bits // 8) + 4 * 2**bits,
    )


@pytest.mark.parametrize("bits", range(1, 9))
def test_codes_are_packed_as_coremltools_packs_them(bits: int) -> None:
    codes = np.random.default_rng(bits).integers(0, 1 << bits, 29).astype(np.uint8)
    packed = (
        codes if bits == 8 else quantization_utils._convert_array_to_nbit_quantized_bytes(codes, bits)
    ).tobytes()
    np.testing.assert_array_equal(unpack(packed, bits, codes.size), codes)


def test_half_precision() -> None:
    model = MLModel(_product().spec, skip_model_load=True)
    spec = quantization_utils.quantize_weights(model, 16).get_spec()
    kept = container.read(spec.SerializeToString())
    expected = X @ W.astype(np.float16).astype(np.float32).T
    np.testing.assert_allclose(coremlscope.predict(kept, {"x": X})["y"], expected, rtol=1e-5, atol=1e-6)
    assert _group(kept) == WeightGroup(storage="fp16", dtype="fp16", tensors=1, parameters=30, nbytes=60)


def test_dynamic_quantisation() -> None:
    codes = np.random.default_rng(0).integers(-127, 128, (5, 6)).astype(np.int8)
    builder = network({"x": X.shape}, exact=True)
    builder.add_inner_product(
        "product",
        codes.tobytes(),
        None,
        6,
        5,
        False,
        "x",
        "y",
        int_8_dynamic_quantize=True,
        is_quantized_weight=True,
        quantization_type="linear",
        nbits=8,
        quant_scale=np.array([0.02]),
    )
    np.testing.assert_allclose(predict(builder, x=X), X @ (0.02 * codes.T), rtol=1e-4, atol=1e-5)
    assert _group(read(builder)) == WeightGroup(
        storage="affine int8", dtype="fp32", tensors=1, parameters=30, nbytes=34
    )


def test_quantised_kernels_of_convolutions() -> None:
    """The builder takes kernels as height, width, in, out, and writes out, in, height, width."""
    codes = np.random.default_rng(0).integers(0, 256, (2, 3, 1, 4)).astype(np.uint8)
    scale, bias = np.array([0.1, 0.2, 0.3, 0.4]), np.array([-1.0, 0.0, 1.0, 2.0])
    builder = network({"x": (1, 2, 3)})
    builder.add_convolution(
        "conv",
        1,
        4,
        2,
        3,
        1,
        1,
        "valid",
        1,
        codes.tobytes(),
        None,
        False,
        input_name="x",
        output_name="y",
        quantization_type="linear",
        nbits=8,
        quant_scale=scale,
        quant_bias=bias,
    )
    x = random(1, 2, 3)
    expected = ((codes * scale + bias)[:, :, 0] * x[0, :, :, None]).sum((0, 1))
    np.testing.assert_allclose(predict(builder, x=x), expected, rtol=1e-4)


def test_deconvolutions_are_quantised_along_what_they_give() -> None:
    weight = random(4, 3, 2, 2, seed=1)
    builder = network({"x": (4, 3, 3)})
    builder.add_convolution(
        "up",
        4,
        3,
        2,
        2,
        2,
        2,
        "valid",
        1,
        weight.transpose(2, 3, 0, 1),
        None,
        False,
        is_deconv=True,
        input_name="x",
        output_name="y",
    )
    spec = builder.spec
    quantization_utils._quantize_nn_spec(spec.neuralNetwork, 4, LINEAR)
    kept = container.read(spec.SerializeToString())
    quantization_utils._dequantize_nn_spec(spec.neuralNetwork)
    values = {"x": random(4, 3, 3)}
    expected = coremlscope.predict(container.read(spec.SerializeToString()), values)["y"]
    np.testing.assert_allclose(coremlscope.predict(kept, values)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda w: w.quantization.linearQuantization.scale.extend([1.0]), "6 quantisation parameters"),
        (lambda w: setattr(w, "rawValue", w.rawValue[:-1]), "weights instead of 30 (5 x 6)"),
        (lambda w: setattr(w.quantization, "numberOfBits", 9), "weights to 9 bits is unknown"),
        (lambda w: w.quantization.lookupTableQuantization.floatValue.append(1.0), "has 1 entries"),
    ],
)
def test_damaged_quantisation(damage: object, problem: str) -> None:
    spec = _product().spec
    quantization_utils._quantize_nn_spec(spec.neuralNetwork, 8, LINEAR)
    assert callable(damage)
    damage(spec.neuralNetwork.layers[0].innerProduct.weights)
    layer = layers_of(container.read(spec.SerializeToString()))[0].layer
    assert layer is not None
    assert problem in layer.problem
