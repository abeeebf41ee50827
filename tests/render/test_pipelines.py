"""Pipelines on screens and in Markdown."""

from __future__ import annotations

import msgspec.structs
import pytest

from coremlscope.reports.estimates import estimates_document
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.measurement import StageTiming
from coremlscope.results.model import ModelSummary, StageSummary
from coremlscope.results.profile import Profile
from tests.support import golden
from tests.support.comparisons import with_measurement
from tests.support.planned_profiles import KERNELS, device_estimates
from tests.support.profiles import small_profile, small_summary

_ABSENT = "its network is part of Apple's systems and not of the file"


def _summary() -> ModelSummary:
    stages = (
        StageSummary(
            name="model0",
            kind="visionFeaturePrint",
            inputs=(("image", "image BGR 299×299"),),
            outputs=(("print", "float64 2048"),),
            facts=(("extractor", "scene, version 1"), ("looks at", "an image of 299×299 pixels")),
            absent=_ABSENT,
        ),
        StageSummary(
            name="encoder/model0",
            kind="neuralNetworkClassifier",
            inputs=(("print", "float64 2048"),),
            outputs=(("label", "string"), ("odds", "dictionary string → double")),
            operations=7,
            parameters=41_000,
            weights_bytes=164_000,
        ),
    )
    return msgspec.structs.replace(small_summary(), kind="pipelineClassifier", stages=stages)


def _profile() -> Profile:
    timings = (
        StageTiming(name="model0", kind="visionFeaturePrint", absent=_ABSENT),
        StageTiming(
            name="encoder/model0",
            kind="neuralNetworkClassifier",
            run_s=0.0012,
            convert_s=0.0003,
            operations_s=0.0008,
        ),
    )
    return msgspec.structs.replace(with_measurement(small_profile(), stages=timings), model=_summary())


SUBJECTS = {"inspect": _summary, "profile": _profile}


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", SUBJECTS)
def test_screens(name: str, width: int) -> None:
    text = write_terminal(document_of(SUBJECTS[name]()), width=width)
    start = text.index("\nStages  ") + 1
    golden.check(f"{name}_stages_{width}.txt", text[start : text.index("\n\n", start) + 1])


@pytest.mark.parametrize("width", [40, 80, 140])
@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_is_wider_than_the_terminal(name: str, width: int) -> None:
    assert max(map(len, write_terminal(document_of(SUBJECTS[name]()), width=width).splitlines())) <= width


def test_markdown() -> None:
    text = write_markdown(document_of(_profile()))
    assert "| model0 | Vision feature print | not run |  |  |  |" in text
    assert "| encoder/model0 | neural network classifier | 1.50 ms | 100.0 % | 300 µs | 800 µs |" in text
    text = write_markdown(document_of(_summary()))
    assert f"cannot run here: {_ABSENT}" in text


def test_a_model_of_the_system_alone() -> None:
    alone = msgspec.structs.replace(small_summary(), facts=(("language", "en"),), absent=_ABSENT)
    for text in (write_terminal(document_of(alone), width=140), write_markdown(document_of(alone))):
        assert "en" in text
        assert _ABSENT in text


def test_estimates_say_what_they_leave_out() -> None:
    left_out = ("model0 (visionFeaturePrint)",)
    estimates = tuple(msgspec.structs.replace(e, left_out=left_out) for e in device_estimates())
    profile = msgspec.structs.replace(_profile(), kernels=KERNELS, estimates=estimates)
    assert "sample at least, without model0 (visionFeaturePrint): unknown" in write_terminal(
        estimates_document([profile])
    )
