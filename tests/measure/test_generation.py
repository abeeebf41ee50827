"""Measured tokens per second of language models."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest

from coremlscope import api
from coremlscope.base.errors import EngineError, UsageError
from coremlscope.cli.main import main
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.measure.contract import MeasuredModel
from coremlscope.measure.effort import Effort
from coremlscope.measure.scripted import ScriptedMeasurer
from coremlscope.model import ir
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.page import render_html
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.generation import TokenTiming
from coremlscope.results.measurement import EarlyEnd, Measurement, Phase, Settings
from coremlscope.results.profile import Profile
from tests.support.decoders import ROOM, decoder, flexible_decoder, save_flexible_decoder

#: As few repetitions as possible.
ONCE: Any = {"iterations": 1, "effort": Effort(compile_iterations=1, load_iterations=1, warmups=1)}


@dataclass
class ByContext:
    """A measurer whose predictions take a millisecond for each token of the context."""

    raises: int = 0
    interrupted: int = 0
    limited: int = 0
    asked: list[Settings] = field(default_factory=list)

    def measure(self, subject: MeasuredModel, settings: Settings, **_: Any) -> Measurement:
        self.asked.append(settings)
        context = settings.shapes.get("mask", (1,))[-1]
        if context == self.raises:
            raise EngineError("the engine failed", "try again")
        measured = ScriptedMeasurer(predict_s=(context / 1000,)).measure(subject, settings)
        if context == self.interrupted:
            return msgspec.structs.replace(measured, partial=EarlyEnd("interrupted", "predict", "by Ctrl-C"))
        if context == self.limited:
            return msgspec.structs.replace(measured, partial=EarlyEnd("limit", "predict", "it took too long"))
        return measured


@pytest.fixture(scope="module")
def flexible() -> ir.Model:
    return flexible_decoder()


@pytest.fixture(scope="module")
def profile(flexible: ir.Model) -> Profile:
    return api.profile(flexible, effort=Effort(warmups=0), engine=ByContext(), tokens=7, devices="m1")


def test_each_context_is_timed_as_often_as_asked(flexible: ir.Model) -> None:
    measurer = ByContext()
    profile = api.profile(flexible, engine=measurer, tokens=7)
    decoded = [one for one in profile.token_timings if one.phase == "decode"]
    assert [one.attended for one in decoded] == [8, 16, 32, ROOM]
    for one in decoded:
        assert one.predict.statistics.count == 7
        assert one.step_s.value == pytest.approx(one.attended / 1000)
        assert one.tokens_per_s.value == pytest.approx(1000 / one.attended)
        assert one.tokens_per_s.origin == "measured"
    (prefill,) = (one for one in profile.token_timings if one.phase == "prefill")
    assert prefill.tokens == 32
    assert prefill.tokens_per_s.value == pytest.approx(1000)
    first, *steps = measurer.asked
    assert first.times_operations
    assert not any(one.times_operations for one in steps)
    assert ["predict" in one.early for one in steps] == [False] * 4 + [True]


def test_an_interval_is_that_of_the_median() -> None:
    seconds = [0.01 * (1 + 0.1 * (number * 7 % 11)) for number in range(40)]
    step, rate = TokenTiming.figures(4, Phase.of(seconds))
    assert step.low < step.value < step.high
    assert rate.low == pytest.approx(4 / step.high)
    assert rate.high == pytest.approx(4 / step.low)
    few, _ = TokenTiming.figures(4, Phase.of(seconds[:3]))
    assert few.low == few.value == few.high


def test_a_step_that_fails_costs_one_row(flexible: ir.Model) -> None:
    profile = api.profile(flexible, engine=ByContext(raises=16, limited=32), tokens=2)
    assert [one.attended for one in profile.token_timings] == [8, 32, ROOM, 32]
    lost = [one for one in profile.findings if one.id == "tokens-not-measured"]
    assert [one.exit_code for one in lost] == [6, 6, 6]
    assert (
        lost[0].text == "Not measured to the end: decode of 1 tokens with a context of 16: the engine failed."
    )
    profile = api.profile(flexible, engine=ByContext(interrupted=16), tokens=2)
    assert [one.attended for one in profile.token_timings] == [8, 16]


def test_a_model_without_a_decoder_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="not a decoder"):
        api.profile(sample_model(size=32, width=0.5, classes=10), engine=ByContext(), tokens=2)


def test_every_report_shows_measured_and_estimated_rates(profile: Profile) -> None:
    for width in (60, 80, 140):
        text = write_terminal(document_of(profile), width=width)
        assert "Tokens per second, measured" in text
        assert max(map(len, text.splitlines())) <= width
    assert "### Tokens per second, measured (Scripted runtime" in write_markdown(document_of(profile))
    assert '"token_timings":[{' in render_html(profile)
    again = Profile.from_json(json.loads(json.dumps(profile.to_json())))
    assert again.token_timings == profile.token_timings
    assert {rate.attended for rate in profile.rates} == {8, 16, 32, ROOM}


def test_the_engine_keeps_a_state_between_predictions() -> None:
    profile = api.profile(decoder(), **ONCE, tokens=3)
    (one,) = profile.token_timings
    assert (one.phase, one.predict.statistics.count, one.context) == ("decode", 3, 512)
    assert one.held_bytes == 2 * one.cache_bytes
    assert one.label == profile.measurement.label
    text = write_terminal(document_of(profile))
    assert "the cache holds 512 tokens in 1.05 MB, and takes 2.10 MB in float32 here" in " ".join(
        text.split()
    )


def test_profile_times_tokens_in_a_process_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, saved = tmp_path / "decoder.mlpackage", tmp_path / "profile.json"
    save_flexible_decoder(model)
    names = ("iterations", "compile-iterations", "load-iterations", "warmups")
    options = [text for name in names for text in (f"--{name}", "1")]
    options += ["--shape", "ids=1x1", "--shape", "mask=1x1x1x16"]
    assert main(["profile", str(model), "--tokens", "2", *options, "-o", str(saved), "--quiet"]) == 0
    (one,) = Profile.load(saved).token_timings
    assert one.attended == 16
    assert one.peak_memory_bytes is not None
    assert one.peak_memory_bytes > 10**7
    other = tmp_path / "other.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), other)
    assert main(["profile", str(other), "--tokens", "2"]) == 2
    assert "not a decoder" in capsys.readouterr().err
