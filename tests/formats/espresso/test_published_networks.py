"""Published compiled networks, and those of them whose source is published as well."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import coremlscope
from coremlscope.formats import container
from coremlscope.formats.espresso.blobs import BlobFile
from coremlscope.formats.espresso.files import CompiledNetwork, read_network_file
from coremlscope.formats.espresso.preprocessing import parse_tables
from coremlscope.formats.neuralnetwork.weights import weight_values
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir, schema
from coremlscope.model.schema import Message

pytestmark = pytest.mark.corpus

_FOLDER = "models/getbouncer__cardscan-ios"
_COMPILED = (
    "FindFour",
    "FourRecognize",
    "Removed_SSDOcr",
    "SSDOcr",
    "SSDOcr-2",
    "SSDOcr-3",
    "uxmodel",
)
#: The compiled form of a source of the same name.
_PAIRS = ("FindFour", "FourRecognize", "SSDOcr")


def _function(model: ir.Model) -> ir.Function:
    assert isinstance(model.content, ir.Program)
    (function,) = model.content.functions.values()
    return function


def _net(corpus: Path, name: str) -> tuple[CompiledNetwork, BlobFile]:
    folder = corpus / _FOLDER / f"{name}.mlmodelc"
    blobs = BlobFile.open(WeightStorage("weights", folder / "model.espresso.weights"))
    return read_network_file(folder / "model.espresso.net"), blobs


def _spec(corpus: Path, name: str) -> Message:
    return schema.message_class("Model").FromString((corpus / _FOLDER / f"{name}.mlmodel").read_bytes())


@pytest.mark.parametrize("name", _COMPILED)
def test_every_layer_is_translated(corpus: Path, name: str) -> None:
    model = container.read(corpus / _FOLDER / f"{name}.mlmodelc")
    network, _ = _net(corpus, name)
    layers = _function(model).layers
    assert [layer.name for layer in layers] == [layer.name for layer in network.layers]
    assert [layer for layer in layers if layer.problem or layer.doubt] == []
    assert model.remarks == ()
    (feature,) = model.description.main.inputs
    assert isinstance(feature.type, ir.ImageFeature)
    if name == "Removed_SSDOcr":
        assert [file.size for file in model.weight_files] == [None]
        assert coremlscope.estimate(model, "m1").estimates
        return
    image = Image.new("RGB", (feature.type.width, feature.type.height))
    results = coremlscope.predict(model, {feature.name: image})
    assert all(np.isfinite(np.asarray(value)).all() for value in results.values())


@pytest.mark.parametrize("name", _COMPILED)
def test_both_files_have_the_same_preprocessing(corpus: Path, name: str) -> None:
    network, _ = _net(corpus, name)
    data = (corpus / _FOLDER / f"{name}.mlmodelc" / "model" / "coremldata.bin").read_bytes()
    ((key, values),) = parse_tables(data).items()
    given = network.transforms[key]
    for number in ("scale", "bias_r", "bias_g", "bias_b"):
        assert values[number] == np.float32(given[number])


@pytest.mark.parametrize("name", _PAIRS)
def test_layers_are_those_of_the_source_but_for_fused_ones(corpus: Path, name: str) -> None:
    network, _ = _net(corpus, name)
    compiled = Counter(layer.type for layer in network.layers)
    source = Counter(layer.WhichOneof("layer") for layer in _spec(corpus, name).neuralNetwork.layers)
    fused = sum(bool(layer.attributes.get("fused_relu")) for layer in network.layers)
    relus = sum(
        layer.activation.WhichOneof("NonlinearityType") == "ReLU"
        for layer in _spec(corpus, name).neuralNetwork.layers
    )
    assert compiled["convolution"] == source["convolution"]
    assert "batchnorm" not in compiled
    assert fused == relus


@pytest.mark.parametrize("name", _PAIRS)
def test_weights_are_those_of_the_source_with_normalizations_folded(corpus: Path, name: str) -> None:
    network, blobs = _net(corpus, name)
    layers = {layer.name: layer for layer in network.layers}
    source = _spec(corpus, name).neuralNetwork.layers
    norms = {layer.input[0]: layer.batchnorm for layer in source if layer.WhichOneof("layer") == "batchnorm"}
    for layer in source:
        if layer.WhichOneof("layer") != "convolution":
            continue
        weights, bias = _folded(layer.convolution, norms.get(layer.output[0]))
        numbers = layers[layer.name].attributes
        stored, stored_bias = blobs.find(numbers["blob_weights_f16"]), blobs.find(numbers["blob_biases"])
        assert stored is not None
        assert stored_bias is not None
        found = np.frombuffer(stored.read(), np.float16).reshape(weights.shape).astype(np.float32)
        np.testing.assert_allclose(found, weights, rtol=1.01 * 2**-10, atol=2**-24)  # one unit of fp16
        np.testing.assert_allclose(np.frombuffer(stored_bias.read(), np.float32), bias, rtol=1e-5, atol=1e-6)


def _folded(convolution: Message, norm: Message | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns the weights and the bias of a convolution and the batch normalization after it."""
    channels = convolution.outputChannels
    weights = np.asarray(weight_values(convolution.weights), np.float32).reshape(channels, -1)
    bias = np.zeros(channels, np.float32)
    if convolution.hasBias:
        bias = np.asarray(weight_values(convolution.bias), np.float32)
    if norm is None:
        return weights, bias
    gamma, beta, mean, variance = (
        np.asarray(weight_values(part), np.float32)
        for part in (norm.gamma, norm.beta, norm.mean, norm.variance)
    )
    scale = gamma / np.sqrt(variance + norm.epsilon)
    return weights * scale[:, None], (bias - mean) * scale + beta


@pytest.mark.parametrize("name", _PAIRS)
def test_predictions_are_those_of_the_source_with_the_compilers_weights(corpus: Path, name: str) -> None:
    """The compiler rounds folded weights to fp16, so the source gets these weights for the comparison."""
    spec = _spec(corpus, name)
    _take_weights(spec, *_net(corpus, name))
    source = container.read(spec.SerializeToString())
    (feature,) = source.description.main.inputs
    assert isinstance(feature.type, ir.ImageFeature)
    random = np.random.default_rng(0)
    with (
        coremlscope.open(source) as before,
        coremlscope.open(corpus / _FOLDER / f"{name}.mlmodelc") as after,
    ):
        for _ in range(10):
            pixels = random.integers(0, 256, (feature.type.height, feature.type.width, 3), np.uint8)
            values = {feature.name: Image.fromarray(pixels)}
            expected, found = before.predict(values), after.predict(values)
            assert expected.keys() == found.keys()
            for key, value in expected.items():
                np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-6 * np.abs(value).max())


def _take_weights(spec: Message, network: CompiledNetwork, blobs: BlobFile) -> None:
    """Replaces convolutions of the source by compiled ones, and normalizations by the identity."""
    layers = {layer.name: layer.attributes for layer in network.layers}
    for layer in spec.neuralNetwork.layers:
        if layer.WhichOneof("layer") == "convolution":
            weights, bias = (
                blobs.find(layers[layer.name][key]) for key in ("blob_weights_f16", "blob_biases")
            )
            assert weights is not None
            assert bias is not None
            target = layer.convolution
            target.weights.Clear()
            target.weights.float16Value = bytes(weights.read())
            target.hasBias = True
            target.bias.Clear()
            target.bias.floatValue.extend(np.frombuffer(bias.read(), np.float32).tolist())
        elif layer.WhichOneof("layer") == "batchnorm":
            norm = layer.batchnorm
            for part, value in ((norm.gamma, 1), (norm.beta, 0), (norm.mean, 0), (norm.variance, 1)):
                part.Clear()
                part.floatValue.extend([value] * norm.channels)
            norm.epsilon = 1e-30
