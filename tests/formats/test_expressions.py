"""Models of single layers by kind and options, in the place of a path."""

from __future__ import annotations

import json
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil.frontend.milproto.load import load
from hypothesis import given
from hypothesis import strategies as st

import coremlscope
from coremlscope.api.models import open_sources
from coremlscope.base.errors import UsageError
from coremlscope.cli import main
from coremlscope.formats import container
from coremlscope.formats.expressions.kinds import KINDS
from coremlscope.formats.expressions.parsing import combinations, parse
from coremlscope.formats.expressions.reading import build_layer
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.measure.effort import Effort
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind


@pytest.mark.parametrize(
    ("text", "kind", "options"),
    [
        ("relu", "relu", {}),
        ("relu()", "relu", {}),
        (" conv ( kernel = 3 , bias=false ) ", "conv", {"kernel": (3,), "bias": (False,)}),
        ("conv(dilations=1,2,4, kernel=3)", "conv", {"dilations": (1, 2, 4), "kernel": (3,)}),
        ("conv(kernel=1..5)", "conv", {"kernel": (1, 2, 3, 4, 5)}),
        ("conv(kernel=1..9..4,11)", "conv", {"kernel": (1, 5, 9, 11)}),
        ("conv(kernel=3, 5, pad='same')", "conv", {"kernel": (3, 5), "pad": ("same",)}),
        ("conv(shape=1x64x56x56,)", "conv", {"shape": ((1, 64, 56, 56),)}),
        ("softmax(axis=-1,1)", "softmax", {"axis": (-1, 1)}),
        ("clip(beta=1e-3, alpha=-.5)", "clip", {"beta": (1e-3,), "alpha": (-0.5,)}),
        ("layer_norm(epsilon=1.)", "layer_norm", {"epsilon": (1.0,)}),
    ],
)
def test_expressions(text: str, kind: str, options: dict[str, object]) -> None:
    found = parse(text)
    assert (found.kind, dict(found.options)) == (kind, options)


@pytest.mark.parametrize(
    "text",
    [
        *("", "3", "conv(", "conv)", "conv(kernel)", "conv(kernel=)", "conv(kernel=3", "conv(kernel=3) x"),
        *("conv(kernel=3..1)", "conv(kernel=1..)", "conv(kernel=1..2..0)", "conv(kernel=1.5..3)"),
        *("conv(kernel=3, kernel=5)", "conv(kernel=1..2000)", "conv(kernel=1..40, stride=1..40)"),
        *("__import__('os').system('true')", "conv(kernel=open('x'))", "conv(kernel=1+1)", "conv(kernel={})"),
        *("x" * 2000, "conv(kernel=" + "9" * 40 + ")", "conv(pad='same)", "conv(kernel=1,,2)"),
    ],
)
def test_wrong_expressions_are_one_sentence(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.hint
    assert "\n" not in caught.value.message


@given(st.text("conv(kernel=.,x1379)[]'\"- \té\x1b", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except UsageError:
        return
    assert 0 < len(list(combinations(found))) <= 1000


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("konv(kernel=3)", "no kind of layer", "conv"),
        ("help()", "no such file, and no kind of layer 'help'", "name a model"),
        ("conv(kernl=3)", "no option 'kernl'", "kernel"),
        ("conv(dilation=2, dilations=4)", "given twice", "leave one"),
        ("conv(kernel=big)", "not a whole number", "give"),
        ("conv(kernel=3x3x3)", "2 joined by x", "give"),
        ("conv(groups=7)", "7 groups", "divides both"),
        ("conv(groups=0)", "0 groups", "divides both"),
        ("conv(bias=3)", "true or false", "give"),
        ("conv(pad=reflect)", "same or valid", "give"),
        ("conv(shape=64)", "1 to 3 further dimensions", "1x64x56x56"),
        ("conv(kernel=99, pad=valid)", "window of 99", "change one"),
        ("conv(shape=1x64x0x4)", "cannot be built", "positive"),
        ("conv(shape=99999x99999x9x9)", "has more than 1073741824 elements", "smaller sizes"),
        ("linear(channels=99999999)", "has more than 268435456 elements", "smaller sizes"),
        ("conv(kernel=0)", "kernel=0 of conv is not 1 or more", "give 1 or more"),
        ("conv(dilations=0)", "dilations=0 of conv is not 1 or more", "give 1 or more"),
        ("max_pool(stride=-1x1)", "stride=-1x1 of max_pool is not 1 or more", "give 1 or more"),
        ("conv(dtype=int8)", "fp16 or fp32", "give"),
        ("relu(repeat=1000)", "1000 times", "1 to 100"),
        ("embedding(repeat=2)", "cannot be repeated", "leave repeat out"),
        ("reshape(to=7x7)", "reshape cannot have these options", "change one"),
        ("split(count=0)", "not 0", "smaller"),
        ("transpose(perm=0x1)", "transpose cannot", "change one"),
    ],
)
def test_wrong_options_are_one_sentence(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        container.read(text)
    assert hint in caught.value.hint


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_built(kind: str) -> None:
    model = build_layer(kind, {})
    (function,) = model.content.functions.values()
    bound = bind(function, OPS)
    assert not bound.problems
    assert all(op.type in OPS or op.type == "const" for op in function.graph.ops)
    assert KINDS[kind].doc


@pytest.mark.parametrize(
    ("text", "type_", "shape"),
    [
        ("conv(kernel=3x5, stride=2, channels=8, shape=1x4x9x9)", "conv", (1, 8, 5, 5)),
        ("conv1d(kernel=4, pad=1, shape=1x4x9)", "conv", (1, 64, 8)),
        ("depthwise(multiplier=2, shape=1x4x9x9)", "conv", (1, 8, 9, 9)),
        ("conv_transpose(shape=1x4x9x9, channels=2)", "conv_transpose", (1, 2, 18, 18)),
        ("lstm(hidden=6, shape=5x1x4)", "lstm", (5, 1, 6)),
        ("attention(shape=1x2x8x4, keys=16)", "scaled_dot_product_attention", (1, 2, 8, 4)),
        ("split(count=2, shape=1x4x3)", "split", (1, 2, 3)),
        ("greater(shape=1x4)", "greater", (1, 4)),
        ("topk(k=3, shape=1x8)", "topk", (1, 3)),
        ("upsample(scale=3, shape=1x2x4x4)", "upsample_bilinear", (1, 2, 12, 12)),
        ("relu(repeat=3, dtype=fp32, shape=1x4)", "relu", (1, 4)),
    ],
)
def test_layers_run_and_are_read_by_coremltools(
    text: str, type_: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    model = container.read(text)
    path = tmp_path / "layer.mlpackage"
    write_mlpackage(model, path)
    assert container.read(path).content == model.content
    spec = ct.models.MLModel(str(path), skip_model_load=True).get_spec()
    program = load(spec, spec.specificationVersion, str(path / "Data" / "com.apple.CoreML" / "weights"))
    assert type_ in [op.op_type for op in program.functions["main"].operations]
    interface = model.description.main
    values = {f.name: np.ones(f.type.shape, f.type.dtype.numpy) for f in interface.inputs}
    results = coremlscope.predict(path, values)
    assert results[interface.outputs[0].name].shape == shape


def test_repeated_layers_follow_each_other() -> None:
    model = build_layer("conv", {"repeat": 4, "shape": (1, 64, 8, 8)})
    convs = [op for op in model.content.functions["main"].graph.ops if op.type == "conv"]
    assert len(convs) == 4
    assert convs[1].inputs["x"][0] == convs[0].outputs[0]


def test_several_layers_are_models_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    several = "conv(pad=valid, shape=1x4x9x9, kernel=3,5)"
    labels = [f"conv(pad=valid, shape=1x4x9x9, kernel={kernel})" for kernel in (3, 5)]
    assert [name for name, _ in open_sources(several)] == labels
    with pytest.raises(UsageError, match="describes 2 layers"):
        container.read(several)
    for verb in ("plan", "estimate"):
        assert main([verb, several, "--device", "m1", "--json", "-"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert len(result["plans" if verb == "plan" else "estimates"]) == 2
    compared = coremlscope.compare(several, devices="m1", iterations=2)
    assert [profile.model.path for profile in compared.profiles] == labels
    assert all(profile.measurement.predict and profile.estimates for profile in compared.profiles)


def test_a_layer_is_read_in_a_process_of_its_own() -> None:
    profile = coremlscope.profile("relu(shape=1x4)", iterations=2, effort=Effort(isolate=True))
    assert profile.measurement.predict is not None


def test_core_ml_gets_a_package() -> None:
    package = container.on_disk(Path("relu(shape=1x4)"))
    assert package.suffix == ".mlpackage"
    assert container.read(package).content == container.read("relu(shape=1x4)").content


def test_a_file_precedes_an_expression(tmp_path: Path) -> None:
    path = tmp_path / "relu()"
    write_mlpackage(container.read("tanh(shape=1x4)"), tmp_path / "tanh.mlpackage")
    (tmp_path / "tanh.mlpackage").rename(path)
    assert container.read(path).content == container.read("tanh(shape=1x4)").content


def test_outputs_have_types_of_an_interface() -> None:
    for kind in ("greater", "cast"):
        model = build_layer(kind, {"to": "bool"} if kind == "cast" else {})
        assert model.description.main.outputs[0].type.dtype is ir.DType.INT32


def test_the_guide_names_every_kind() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "parts.md"
    named = guide.read_text(encoding="utf-8").partition("The kinds are ")[2].partition(".\n")[0]
    assert [one.strip("`\n ") for one in named.split(",")] == [*KINDS]
