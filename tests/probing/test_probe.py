"""Single layers by kind and options: the expressions, the models and the tables."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil.frontend.milproto.load import load
from hypothesis import given
from hypothesis import strategies as st

import coremlscope
from coremlscope.base.errors import UsageError
from coremlscope.cli import main
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.reports.layers import _merged, layers_document
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.studies.probing.expression import combinations, parse_probe
from coremlscope.studies.probing.layers import KINDS
from coremlscope.studies.probing.models import build_layer, check_probe
from coremlscope.studies.probing.probe import probe


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
    found = parse_probe(text)
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
        parse_probe(text)
    assert caught.value.hint
    assert "\n" not in caught.value.message


@given(st.text("conv(kernel=.,x1379)[]'\"- \té\x1b", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse_probe(text)
    except UsageError:
        return
    assert 0 < len(list(combinations(found))) <= 1000


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("konv(kernel=3)", "no kind of layer", "conv"),
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
        ("conv(shape=1x64x0x4)", "cannot be probed", "positive"),
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
        probe(text, "m1")
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
    asked = check_probe(parse_probe(text))
    (options,) = combinations(asked)
    model = build_layer(asked.kind, options)
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


def test_a_sweep_is_planned_and_estimated() -> None:
    profiles = probe("conv(pad=valid, shape=1x4x9x9, kernel=3,11)", "m1", compute_units=("all", "cpu_only"))
    assert [profile.model.path for profile in profiles] == [
        "conv(pad=valid, shape=1x4x9x9, kernel=3)",
        "conv(pad=valid, shape=1x4x9x9, kernel=11)",
    ]
    (plan,) = profiles[0].plans
    assert [setting.compute_units for setting in plan.settings] == ["all", "cpu_only"]
    assert len(profiles[0].estimates) == 2
    assert [finding.severity for finding in profiles[1].findings] == ["error"]
    text = write_terminal(layers_document(profiles), width=140)
    assert text.startswith("conv(pad=valid, shape=1x4x9x9)  2 layers")
    assert "a window of 11 over 9 elements" in text


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [tmp_path / name for name in ("layers.csv", "layers.md", "layers.txt", "layers.html")]
    arguments = ["probe", "pad(mode=constant,reflect)", "--device", "m1", "--compute-units", "all,cpu_only"]
    for report in reports:
        arguments += ["-o", str(report)]
    assert main([*arguments, "--json", str(tmp_path / "layers.json"), "--keep", str(tmp_path / "kept")]) == 0
    shown = capsys.readouterr().out
    assert "mode=reflect" in shown
    assert "NE no (1)" in shown
    assert "does not pad by reflection" in shown
    rows = list(csv.DictReader(io.StringIO(reports[0].read_text())))
    assert [(row["layer"], row["compute_units"], row["runs_on"]) for row in rows] == [
        ("pad(mode=constant)", "all", "CPU"),
        ("pad(mode=constant)", "cpu_only", "CPU"),
        ("pad(mode=reflect)", "all", "CPU"),
        ("pad(mode=reflect)", "cpu_only", "CPU"),
    ]
    assert "does not pad by reflection" in rows[2]["cannot_run_on"]
    assert rows[0]["measured_here_ms"] == ""
    assert "| mode=reflect | all |" in reports[1].read_text()
    assert len(json.loads((tmp_path / "layers.json").read_text())["profiles"]) == 2
    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert kept == ["pad_mode-constant.mlpackage", "pad_mode-reflect.mlpackage"]


def test_layers_are_timed_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "relu(shape=1x4)", "--run", "--iterations", "2"]) == 0
    assert "ONNX Runtime" in capsys.readouterr().out
    (profile,) = probe("relu(shape=1x4)", run=True, iterations=2)
    assert profile.measurement.predict is not None


def test_arguments_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--list"]) == 0
    shown = capsys.readouterr().out
    assert "conv_transpose" in shown
    assert "dilations=1" in shown
    assert main(["probe"]) == 2
    assert main(["probe", "relu"]) == 2
    assert "--run" in capsys.readouterr().err
    with pytest.raises(UsageError, match="unknown"):
        probe("relu", "m99")


def test_outputs_have_types_of_an_interface() -> None:
    for kind in ("greater", "cast"):
        model = build_layer(kind, {"to": "bool"} if kind == "cast" else {})
        assert model.description.main.outputs[0].type.dtype is ir.DType.INT32


def test_layers_of_a_sweep_that_do_not_differ_are_one_row() -> None:
    rows = [
        ("dilations=1", "all", "a"),
        *((f"dilations={n}", "all", "b") for n in (2, 3, 4)),
        ("x=1", "all", "b"),
    ]
    found = [("dilations=1", "all", "a"), ("dilations=2 … x=1", "all", "b")]
    assert _merged(rows) == found
    assert [row[0] for row in _merged(rows[:-1])] == ["dilations=1", "dilations=2 … 4"]
    # An ellipsis between two layers would stand for layers that were not built.
    assert [row[0] for row in _merged([rows[1], rows[3]])] == ["dilations=2, 4"]
