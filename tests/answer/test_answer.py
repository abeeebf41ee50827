"""What `coremlscope MODEL` says of models that are built here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from coremlscope import api
from coremlscope.api import Source
from coremlscope.cli import main
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.model import ir
from coremlscope.planning.rewrites.clips import with_clips
from coremlscope.results.answer import Answer
from coremlscope.results.profile import Profile
from tests.support.advised_models import F16, Builder, interface, relu6
from tests.support.networks import relu6_layers


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "sample.mlpackage"
    write_mlpackage(sample_model(size=64, width=1.0, classes=10), path)
    return path


@pytest.fixture(scope="module")
def profile(sample: Path) -> Profile:
    return api.answer(sample, ["m4", "iphone-13"])


def _first(model: Source, device: str) -> Answer:
    return api.answer(model, device).answers[0]


def _seconds(answer: Answer) -> float:
    assert answer.latency is not None
    return answer.latency.value


def test_answers_are_in_the_order_of_the_devices_and_equal_the_estimates(profile: Profile) -> None:
    assert [one.device for one in profile.answers] == ["M4"] * 4 + ["iPhone 13"] * 4
    for one in profile.answers:
        found = profile.estimate(one.device, one.compute_units)
        assert found is not None
        assert (one.latency, one.units) == (found.latency, found.placement)
        assert sum(part.share for part in one.time) == pytest.approx(1)


def test_no_change_loses_time_and_there_is_always_one(profile: Profile) -> None:
    for answer in profile.answers:
        assert answer.changes
        for one in answer.changes:
            assert one.after is None or one.saved_s > 0
            if one.certainty == "likely" and one.after is not None:
                assert answer.latency is not None
                assert one.after.high < answer.latency.value


def test_what_was_not_tried_under_a_setting_is_no_limit(profile: Profile) -> None:
    """Changes of the model are planned again for the asked setting alone."""
    untried = [one for one in profile.answers if not one.is_asked and one.changes[0].id == "limit"]
    assert untried
    for answer in untried:
        assert (answer.changes[0].certainty, answer.changes[0].is_planned_again) == ("unknown", False)


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


def test_two_models_have_answers_each(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = sample.with_name("small.mlpackage")
    write_mlpackage(sample_model(size=32, width=0.25, classes=10), small)
    assert main([str(sample), str(small), "--device", "m4,m1", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["answers"]
    asked = [(one["model"], one["device"]) for one in found if one["is_asked"]]
    assert asked == [(str(path), device) for path in (sample, small) for device in ("M4", "M1")]


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
    ("rule", "is_planned_again", "before", "after"),
    [
        # Only neural networks are changed so.
        ("composed-relu6", False, relu6(composed=True), relu6(composed=False)),
        ("float32-interface", True, interface(ir.DType.FP32), interface(ir.DType.FP16)),
    ],
)
@pytest.mark.parametrize("device", ["m4", "iphone-13"])
def test_a_gain_is_that_of_the_changed_model(
    rule: str, is_planned_again: bool, before: ir.Model, after: ir.Model, device: str
) -> None:
    told, changed = (_first(model, device) for model in (before, after))
    (proposal,) = (one for one in told.changes if one.id == rule)
    assert proposal.is_planned_again == is_planned_again
    assert proposal.saved_s == pytest.approx(_seconds(told) - _seconds(changed), rel=0.2)


def test_the_gain_of_one_layer_for_relu6_is_that_of_the_changed_network(tmp_path: Path) -> None:
    source, target = tmp_path / "m.mlmodel", tmp_path / "v.mlmodel"
    source.write_bytes(relu6_layers(size=128, channels=64).spec.SerializeToString())
    told = _first(source, "iphone-13")
    (proposal,) = (one for one in told.changes if one.id == "composed-relu6")
    assert proposal.is_planned_again
    assert proposal.command == f"coremlscope what-if {source} --try relu6"
    target.write_bytes(with_clips(source.read_bytes())[0])
    changed = _seconds(_first(target, "iphone-13"))
    assert proposal.after is not None
    assert proposal.after.value == pytest.approx(changed)


def test_a_packed_vocabulary_is_split_by_its_author_alone() -> None:
    """Nothing here makes the changed model: what the rule promises stays, unclear and not planned again."""
    b = Builder({"x": (F16, (1, 512, 512))})
    table = ir.constant(np.linspace(-1, 1, 256, dtype=np.float16))
    indices = ir.constant(np.zeros(60_000 * 512, np.uint8))
    shape = ir.constant(np.array([60_000, 512], np.uint32))
    weight = b.op("constexpr_lut_to_dense", "w", (60_000, 512), indices=indices, lut=table, shape=shape)
    model = b.model(b.op("linear", "y", (1, 512, 60_000), x=b["x"], weight=weight))
    told = _first(model, "iphone-13")
    found = [one for one in told.changes if one.id in ("long-axes", "ne-extent-16384")]
    assert found
    assert not any(
        one.is_planned_again or one.certainty == "likely" or "what-if" in one.command for one in found
    )
