"""Core AI models that coreai-core wrote: what they compute, and what the verbs show of them."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from coremlscope import api
from coremlscope.base.errors import UsageError
from coremlscope.formats.aimodel.bundle import open_program
from coremlscope.formats.aimodel.content import read_content
from coremlscope.formats.aimodel.reader import read_aimodel
from coremlscope.model import ir
from tests.support.aicode_values import run
from tests.support.aimodels import SAMPLES, copy_bundle, sample


def types_of(model: ir.Model) -> Counter[str]:
    assert isinstance(model.content, ir.Program)
    return Counter(op.type for op in model.content.functions["main"].graph.walk())


@pytest.mark.parametrize("name", ["tiny_conv", "tiny_conv_int8", "tiny_conv_lut4"])
def test_predictions(name: str) -> None:
    image = np.random.default_rng(1).standard_normal((1, 3, 32, 32)).astype(np.float32)
    expected = run(read_content(open_program(sample(name))[0]), {"image": image})
    found = api.predict(sample(name), {"image": image})
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-6)


@pytest.mark.parametrize("length", [3, 40])
def test_predictions_of_a_variable_length(length: int) -> None:
    x = np.random.default_rng(2).standard_normal((1, length, 32)).astype(np.float32)
    expected = run(read_content(open_program(sample("tiny_encoder_dynamic"))[0]), {"x": x})
    found = api.predict(sample("tiny_encoder_dynamic"), {"x": x})
    np.testing.assert_allclose(found["y"], expected["y"], atol=2e-6)


def test_predictions_with_states() -> None:
    path = sample("tiny_decoder_state")
    content = read_content(open_program(path)[0])
    states = {name: np.zeros((1, 2, 16, 16), np.float32) for name in ("k_cache", "v_cache")}
    with api.open(path) as predictor:
        kept = predictor.new_state()  # type: ignore[union-attr]
        for step, token in enumerate((3, 60, 7)):
            values = {"token": np.array([[token]], np.int32), "position": np.array([step], np.int32)}
            expected = run(content, values, states)
            found = predictor.predict(values, kept)
            np.testing.assert_allclose(found["logits"], expected["logits"], atol=2e-6)


def test_paddings_biases_and_transpositions_are_joined() -> None:
    types = types_of(read_aimodel(sample("tiny_conv")))
    assert types == {
        "conv": 3,
        "relu": 2,
        "linear": 2,
        "add": 1,
        "reduce_mean": 1,
        "reshape": 1,
        "gelu": 1,
        "softmax": 1,
    }


def test_composites_are_one_operation() -> None:
    types = types_of(read_aimodel(sample("tiny_decoder_state")))
    assert (types["layer_norm"], types["scaled_dot_product_attention"]) == (2, 1)
    assert types["read_state"] == 4
    assert types["write_state"] == 2


def test_every_operation_of_the_file_is_a_layer() -> None:
    for name in SAMPLES:
        content = read_content(open_program(sample(name))[0])
        stored = [op for op in content.graphs["main"].body.ops if op.name not in ("constant", "output")]
        model = read_aimodel(sample(name))
        assert isinstance(model.content, ir.Program)
        layers = model.content.functions["main"].layers
        assert len(layers) == len(stored)
        assert not any(layer.problem for layer in layers)


def test_layers_have_the_path_of_modules() -> None:
    model = read_aimodel(sample("tiny_conv"))
    assert isinstance(model.content, ir.Program)
    names = [layer.name for layer in model.content.functions["main"].layers]
    assert names[1] == "Conv2d$1/convolution"
    assert "Sequential$1/Linear$2/addmm_1" in names


def test_compressed_weights_keep_their_size() -> None:
    plain, int8, lut4 = (
        api.inspect(sample(name)).weights_bytes for name in ("tiny_conv", "tiny_conv_int8", "tiny_conv_lut4")
    )
    assert int8 < 0.34 * plain
    assert lut4 < 0.21 * plain


def test_inspection() -> None:
    found = api.inspect(sample("tiny_encoder_dynamic"))
    assert (found.kind, found.container, found.platforms) == ("coreAIProgram", "aimodel", "iOS 27, macOS 27")
    assert found.functions[0].inputs[0].flexibility == "1×(1…∞)×32"
    assert found.user_defined["producer"] == "coreai-core 1.0.0b3"
    assert any("no limits of variable sizes" in text for _, text in found.facts)


def test_plans_and_estimates_say_that_core_ai_is_not_known() -> None:
    plan = api.plan(sample("tiny_conv"), devices="m2").plans[0]
    assert any(
        "how Core AI divides programs, and its costs, are not published" in note for note in plan.notes
    )
    estimate = api.estimate(sample("tiny_conv"), devices="m2").estimates[0]
    assert any("published latencies of Core AI" in note for note in estimate.notes)


def test_there_is_no_compiled_form(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no \.mlmodelc form"):
        api.compile(sample("tiny_conv"), tmp_path / "out.mlmodelc")


def test_export(tmp_path: Path) -> None:
    import onnx

    target = tmp_path / "net.onnx"
    api.export(sample("tiny_conv"), target)
    graph = onnx.load(target).graph
    assert [value.name for value in graph.output] == ["probabilities"]


def test_models_in_a_folder_for_language_models(tmp_path: Path) -> None:
    """The folder around the model of a language model has metadata of its own and a tokenizer."""
    folder = tmp_path / "llm"
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "tokenizer" / "tokenizer.json").write_text("{}")
    (folder / "metadata.json").write_text('{"kind": "llm", "assets": {"main": "tiny_conv.aimodel"}}')
    copy_bundle("tiny_conv", folder)
    found = api.list_models(folder)
    assert found is not None
    assert [(model.container, model.kind) for model in found.models] == [("aimodel", "coreAIProgram")]


def test_a_model_in_an_archive(tmp_path: Path) -> None:
    bundle = copy_bundle("tiny_conv", tmp_path)
    with zipfile.ZipFile(tmp_path / "net.zip", "w") as archive:
        for file in bundle.iterdir():
            archive.write(file, f"net.aimodel/{file.name}")
    assert api.inspect(tmp_path / "net.zip").kind == "coreAIProgram"
