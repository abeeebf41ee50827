"""The table of failures: every row matches its example and none of its negative examples."""

from __future__ import annotations

import re

import pytest

from coremlscope.doctor.failures import FAILURES, Failure
from coremlscope.doctor.log import explain_line
from coremlscope.ops import OPS
from coremlscope.placement.verdict import CONFIDENCES


def _id(failure: Failure) -> str:
    return failure.id


@pytest.mark.parametrize("failure", FAILURES, ids=_id)
def test_the_example_matches(failure: Failure) -> None:
    assert failure in explain_line(failure.example)
    prefix = "2026-05-09 12:00:00.123 E  python[1656:43980] [com.apple.coreml:plan] "
    assert failure.is_general or failure in explain_line(prefix + failure.example)


@pytest.mark.parametrize("failure", FAILURES, ids=_id)
def test_negative_examples_do_not_match(failure: Failure) -> None:
    assert failure.negative_examples
    for line in failure.negative_examples:
        assert failure not in explain_line(line), line


@pytest.mark.parametrize("failure", FAILURES, ids=_id)
def test_a_row_is_complete(failure: Failure) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", failure.id)
    assert failure.texts
    assert all(failure.texts)
    assert failure.cause.endswith(".")
    assert failure.fix
    assert not failure.fix.endswith(".")
    assert failure.source
    assert failure.confidence in CONFIDENCES
    assert not failure.op or failure.op in OPS
    assert set(re.compile(failure.pattern).groupindex) <= {"op", "where", "seconds", "minutes"}
    assert not failure.least_seconds or "seconds" in failure.pattern


def test_ids_are_unique() -> None:
    ids = [failure.id for failure in FAILURES]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "epoch 14: loss 0.137, error code 0",
        "2026-05-09 12:00:00 python[1:2] loaded the image in 12 s",
        "Compiling shaders took 3 min. of CPU on 5 machines"[:20],
        "SELECT * FROM plans WHERE error = -14",
        "the model execution plan was built in 3 s",
        "frame 3 of 60: CoreMLPlayer",
    ],
)
def test_ordinary_lines_match_nothing(line: str) -> None:
    assert explain_line(line) == []


def test_a_general_row_yields_to_a_special_one() -> None:
    (found,) = explain_line("E5RT: ANECCompile() FAILED (11)")
    assert found.id == "ane-compile-failed"
    (found,) = explain_line("E5RT: something else")
    assert found.id == "e5rt-exception"


@pytest.mark.parametrize(
    "filler", ["could not open ", "loading ", "feature '", "ANECCompile", "Unsupported op 1 ("]
)
def test_patterns_take_linear_time(filler: str) -> None:
    """A line of 64 kB takes a moment, not minutes, whatever it repeats."""
    explain_line(filler * (65536 // len(filler)) + " weight.bi error code: -1")
