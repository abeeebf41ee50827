"""What `coremlscope MODEL` says of models that are built here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from coremlscope.base.figures import Figure
from coremlscope.cli import main
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.model import ir
from coremlscope.planning.rewrites.clips import with_clips
from coremlscope.planning.rewrites.table import REWRITES
from coremlscope.reports.answer import render_answer
from coremlscope.results.answer import Answer, SettingChoice
from coremlscope.studies.answer.answer import answer_models
from tests.support.advised_models import F16, Builder, interface, relu6
from tests.support.networks import relu6_layers


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "sample.mlpackage"
    write_mlpackage(sample_model(size=64, width=1.0, classes=10), path)
    return path


@pytest.fixture(scope="module")
def answer(sample: Path) -> Answer:
    return answer_models(sample, devices=["m4", "iphone-13"])[0]


def test_speeds_are_in_the_order_of_the_devices_and_equal_the_estimates(answer: Answer, sample: Path) -> None:
    assert [one.device for one in answer.speeds] == ["M4", "iPhone 13"]
    _, (profile,) = answer_models(sample, devices=["m4", "iphone-13"])
    for speed in answer.speeds:
        found = profile.estimate(speed.device, "all")
        assert found is not None
        assert (speed.latency, speed.placement) == (found.latency, found.placement)


def test_no_proposal_loses_time_and_there_is_always_an_answer(answer: Answer) -> None:
    for one in answer.proposals:
        assert one.after is None or one.after.value < one.before_s or one.certainty == "no gain"
        if one.certainty == "likely":
            assert one.after is not None
            assert one.after.high < one.before_s
    assert answer.proposals or answer.nothing
    assert answer.trust is not None


def test_without_devices_it_is_for_the_default_ones(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("COLUMNS", "80")
    assert main([str(sample)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert all(any(name in line for line in lines) for name in DEFAULT_DEVICES)


def test_two_models_are_grouped_by_device(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = sample.with_name("small.mlpackage")
    write_mlpackage(sample_model(size=32, width=0.25, classes=10), small)
    assert main([str(sample), str(small), "--device", "m4,m1", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["device"], one["model"]) for one in found["speeds"]] == [
        (device, name) for device in ("M4", "M1") for name in ("sample.mlpackage", "small.mlpackage")
    ]
    assert found["verdict"].startswith("small.mlpackage is the fastest on all 2 devices")


def test_of_two_models_whose_intervals_overlap_it_is_unclear_which_is_faster(sample: Path) -> None:
    other = sample.with_name("other.mlpackage")
    write_mlpackage(sample_model(size=64, width=0.75, classes=10), other)
    found, _ = answer_models(sample, other, devices=["m4"])
    first, second = (speed.best.latency for speed in found.speeds)
    assert second.high > first.low
    assert found.verdict.startswith("Unclear: other.mlpackage")


def test_the_page_is_written_and_opened(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    page = tmp_path / "page.html"
    assert main([str(sample), "--device", "m4", "--open", "-o", str(page), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert page.stat().st_size > 10_000
    assert [one.endswith("/sample.html") for one in opened] == [True]


def test_a_word_that_is_a_verb_is_the_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "devices").mkdir()
    assert main(["devices"]) == 0
    assert "a17-pro" in capsys.readouterr().out
    assert main(["./devices"]) == 3


@pytest.mark.parametrize(
    ("word", "verb"),
    [
        *(("latency", "estimate"), ("compress", "what-if"), ("quantize", "what-if"), ("prune", "what-if")),
        *(("measure", "profile"), ("benchmark", "profile"), ("record", "trace"), ("info", "inspect")),
        *(("diff", "compare"), ("validate", "verify"), ("diagnose", "doctor"), ("view", "serve")),
    ],
)
def test_words_that_people_write_are_verbs(word: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word, "--help"]) == 0
    assert f"usage: coremlscope {verb} " in capsys.readouterr().out


def test_help_is_a_screen_and_names_every_verb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from coremlscope.cli import all_commands

    monkeypatch.setenv("COLUMNS", "80")
    for option in ("--help", "--help-all"):
        assert main([option]) == 0
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        assert [one.name for one in all_commands() if f" {one.name}" not in text] == []
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.count("\n") <= 40


@pytest.mark.parametrize(
    ("rule", "certainty", "before", "after"),
    [
        # Only neural networks are changed so.
        ("composed-relu6", "unclear", relu6(composed=True), relu6(composed=False)),
        ("float32-interface", "likely", interface(ir.DType.FP32), interface(ir.DType.FP16)),
    ],
)
@pytest.mark.parametrize("device", ["m4", "iphone-13"])
def test_a_gain_is_that_of_the_changed_model(
    rule: str, certainty: str, before: ir.Model, after: ir.Model, device: str
) -> None:
    told, changed = (answer_models(model, devices=device)[0] for model in (before, after))
    (proposal,) = (one for one in told.proposals if one.id == rule)
    assert proposal.certainty == certainty
    assert proposal.after is not None
    gain = proposal.before_s - proposal.after.value
    assert gain == pytest.approx(told.speeds[0].latency.value - changed.speeds[0].latency.value, rel=0.2)


def test_the_gain_of_one_layer_for_relu6_is_that_of_the_changed_network(tmp_path: Path) -> None:
    source, target = tmp_path / "m.mlmodel", tmp_path / "v.mlmodel"
    source.write_bytes(relu6_layers(size=128, channels=64).spec.SerializeToString())
    told = answer_models(source, devices="iphone-13")[0]
    (proposal,) = (one for one in told.proposals if one.id == "composed-relu6")
    assert proposal.is_checked
    assert "what-if MODEL --try relu6" in proposal.command
    target.write_bytes(with_clips(source.read_bytes())[0])
    changed = answer_models(target, devices="iphone-13")[0].speeds[0].latency.value
    assert proposal.after is not None
    assert proposal.after.value == pytest.approx(changed)


def test_a_model_next_to_itself_makes_no_difference(sample: Path) -> None:
    found, _ = answer_models(sample, sample, devices=["m4"])
    assert found.verdict.startswith("No difference")
    assert [one.model for one in found.speeds] == ["sample.mlpackage #1", "sample.mlpackage #2"]


@pytest.mark.parametrize(("positions", "is_faster"), [(512, True), (256, False)])
def test_a_vocabulary_in_parts_is_a_proposal_where_the_changed_model_is_faster(
    positions: int, is_faster: bool
) -> None:
    b = Builder({"x": (F16, (1, positions, 512))})
    weight = ir.constant(np.ones((60_000, 512), np.float16))
    model = b.model(b.op("linear", "y", (1, positions, 60_000), x=b["x"], weight=weight))
    told = answer_models(model, devices="iphone-13")[0]
    found = [one.after.value for one in told.proposals if one.id == "long-axes" and one.after is not None]
    changed = answer_models(REWRITES["split-wide"](model)[0], devices="iphone-13")[0].speeds[0].latency.value
    assert found == ([pytest.approx(changed)] if is_faster else [])
    assert (changed < told.speeds[0].latency.value) == is_faster
    assert not any(one.id.startswith("ne-extent") for one in told.proposals)


def test_windows_of_one_picture_in_fewer_dimensions_are_a_proposal() -> None:
    """A partition into windows with a batch of one has six dimensions, and the Neural Engine takes five."""
    b = Builder({"x": (F16, (1, 64, 64, 96))})
    y, cut, flat = b["x"], (1, 8, 8, 8, 8, 96), (64, 64, 96)
    weight = ir.constant(np.ones((96, 96), np.float16))
    for place in range(4):
        for name, shape in ((f"cut{place}", cut), (f"sorted{place}", cut), (f"windows{place}", flat)):
            given = {"perm": [0, 1, 3, 2, 4, 5]} if name.startswith("sorted") else {"shape": list(shape)}
            y = b.op("transpose" if "perm" in given else "reshape", name, shape, x=y, **given)
        y = b.op("linear", f"linear{place}", flat, x=y, weight=weight)
        y = b.op("reshape", f"back{place}", (1, 64, 64, 96), x=y, shape=[1, 64, 64, 96])
    model = b.model(y)
    told = answer_models(model, devices="iphone-13")[0]
    (proposal,) = (one for one in told.proposals if one.id == "high-rank")
    changed = answer_models(REWRITES["rank-4"](model)[0], devices="iphone-13")[0].speeds[0].latency.value
    assert proposal.certainty == "likely"
    assert proposal.after is not None
    assert proposal.after.value == pytest.approx(changed)


def test_a_packed_vocabulary_is_split_by_its_author_alone() -> None:
    """The transform has no form for packed weights: what the rule promises stays, unclear and not checked."""
    b = Builder({"x": (F16, (1, 512, 512))})
    table = ir.constant(np.linspace(-1, 1, 256, dtype=np.float16))
    indices = ir.constant(np.zeros(60_000 * 512, np.uint8))
    shape = ir.constant(np.array([60_000, 512], np.uint32))
    weight = b.op("constexpr_lut_to_dense", "w", (60_000, 512), indices=indices, lut=table, shape=shape)
    model = b.model(b.op("linear", "y", (1, 512, 60_000), x=b["x"], weight=weight))
    told = answer_models(model, devices="iphone-13")[0]
    found = [one for one in told.proposals if one.id in ("long-axes", "ne-extent-16384")]
    assert found
    assert not any(one.is_checked or one.certainty == "likely" or "what-if" in one.command for one in found)


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_a_setting_and_its_time_are_never_shortened(columns: int, answer: Answer) -> None:
    figure = Figure(0.00234, 0.002, 0.003, "estimated")
    best = SettingChoice(compute_units="cpu_and_gpu", latency=figure, certainty="unclear")
    names = ("another-model-with-a-long-name.mlpackage", "one-more-model-with-a-long-name.mlpackage")
    speeds = [replace(answer.speeds[0], device="iMac 24-inch (M1)", model=one, best=best) for one in names]
    text = render_answer(replace(answer, models=names, speeds=tuple(speeds), device=""), width=columns)
    assert text.count("CPU + GPU 2.34 ms?") == 2
