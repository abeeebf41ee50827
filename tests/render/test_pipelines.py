"""Pipelines on screens and in Markdown."""

from __future__ import annotations

import dataclasses

import pytest
from coremlscope.forecast.estimating import Estimated

from coremlscope import ir
from coremlscope.cost.latency.model import LatencyEstimate
from coremlscope.describe.model import ModelSummary
from coremlscope.describe.stages import StageSummary
from coremlscope.devices import find_device
from coremlscope.figures import Figure
from coremlscope.render import render_console
from coremlscope.render.markdown.report import render_markdown
from coremlscope.render.terminal.estimates import render_estimates
from coremlscope.results.profile import Profile, StageTiming
from tests.support import golden
from tests.support.profiles import small_profile, small_summary

_ABSENT = ir.VisionFeaturePrint.absent


def _summary() -> ModelSummary:
    stages = (
        StageSummary(
            "model0", "visionFeaturePrint", (("image", "image BGR 299×299"),), (("print", "float64 2048"),),
            (("extractor", "scene, version 1"), ("looks at", "an image of 299×299 pixels")), _ABSENT,
        ),
        StageSummary(
            "encoder/model0", "neuralNetworkClassifier", (("print", "float64 2048"),),
            (("label", "string"), ("odds", "dictionary string → double")), (), "", 7, 41_000, 164_000,
        ),
    )  # fmt: skip
    return dataclasses.replace(small_summary(), kind="pipelineClassifier", stages=stages)


def _profile() -> Profile:
    timings = (
        StageTiming("model0", "visionFeaturePrint", _ABSENT),
        StageTiming("encoder/model0", "neuralNetworkClassifier", "", 0.0012, 0.0003, 0.0008),
    )
    return dataclasses.replace(small_profile(), model=_summary(), stages=timings)


SUBJECTS = {"inspect": _summary, "profile": _profile}


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", SUBJECTS)
def test_screens(name: str, width: int) -> None:
    text = render_console(SUBJECTS[name](), width=width)
    start = text.index("\nStages  ") + 1
    golden.check(f"{name}_stages_{width}.txt", text[start : text.index("\n\n", start) + 1])


@pytest.mark.parametrize("width", [40, 80, 140])
@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_is_wider_than_the_terminal(name: str, width: int) -> None:
    assert max(map(len, render_console(SUBJECTS[name](), width=width).splitlines())) <= width


def test_markdown() -> None:
    text = render_markdown(_profile())
    assert "| model0 | Vision feature print | not run |  |  |  |" in text
    assert "| encoder/model0 | neural network classifier | 1.50 ms | 100.0 % | 300 µs | 800 µs |" in text
    text = render_markdown(_summary())
    assert f"cannot run here: {_ABSENT}" in text


def test_a_model_of_the_system_alone() -> None:
    alone = dataclasses.replace(small_summary(), facts=(("language", "en"),), absent=_ABSENT)
    for text in (render_console(alone, width=140), render_markdown(alone)):
        assert "en" in text
        assert _ABSENT in text


def test_estimates_say_what_they_lack() -> None:
    latency = Figure(0.001, 0.0005, 0.002, "estimated")
    estimate = LatencyEstimate(latency, "calibrated", "compute", {"compute": 0.001}, {}, 0, ())
    result = Estimated("a/m.mlmodel", find_device("m1"), "all", estimate, ("model0 (visionFeaturePrint)",))
    assert "m without model0 (visionFeaturePrint): not known" in render_estimates([result, result])
    profile = dataclasses.replace(small_profile(), estimates=(result.for_profile(),))
    assert "without model0 (visionFeaturePrint): not known" in render_console(profile)
