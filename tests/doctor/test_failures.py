"""The table of failures: every row matches its example and none of its negative examples."""

from __future__ import annotations

import re

import pytest

from coremlscope.base.findings import CONFIDENCES
from coremlscope.ops import OPS
from coremlscope.planning.hazards.lines import FAILURES, Failure
from coremlscope.planning.placement.catalog import find_rule
from coremlscope.studies.doctor.explain import Hit, explain_line
from coremlscope.studies.doctor.log import find_reason
from coremlscope.studies.doctor.quoted import QUOTED

_ALL = (*FAILURES, *QUOTED.values())
_PREFIX = "2026-05-09 12:00:00.123 E  python[1656:43980] [com.apple.coreml:plan] "


def _id(failure: Failure) -> str:
    return failure.id


def _ids(line: str) -> list[str]:
    return [hit.failure.id for hit in explain_line(line)]


def _the_hit(line: str) -> Hit:
    (hit,) = explain_line(line)
    return hit


@pytest.mark.parametrize("failure", FAILURES, ids=_id)
def test_the_examples_match(failure: Failure) -> None:
    for example in failure.examples:
        assert failure.id in _ids(example), example
        if not re.match(r"frame|queue|error code|BNNS|EXC", example):
            assert failure.id in _ids(_PREFIX + example), example


@pytest.mark.parametrize("failure", FAILURES, ids=_id)
def test_negative_examples_do_not_match(failure: Failure) -> None:
    assert failure.negative_examples
    for line in failure.negative_examples:
        assert failure.id not in _ids(line), line


@pytest.mark.parametrize("failure", QUOTED.values(), ids=_id)
def test_what_a_rule_quotes_is_explained_and_names_the_rule(failure: Failure) -> None:
    for line in (failure.examples[0], re.sub(r"\d\d", "77", failure.examples[0])):
        assert any(set(failure.rules) & set(hit.rules) for hit in explain_line(line)), line


@pytest.mark.parametrize("failure", _ALL, ids=_id)
def test_a_row_is_complete(failure: Failure) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", failure.id)
    assert failure.texts
    assert failure.examples
    assert all(text and text == text.lower() for text in failure.texts)
    assert all(find_rule(rule) for rule in failure.rules)
    assert failure.cause.endswith(".")
    assert failure.fix
    assert not failure.fix.endswith(".")
    assert failure.source
    assert failure.confidence in CONFIDENCES
    assert not failure.op or failure.op in OPS
    assert not failure.least_seconds or "seconds" in failure.pattern


def test_ids_are_unique() -> None:
    ids = [failure.id for failure in _ALL]
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
        "broadcasting the stream to 3 clients",
        "rank 6 of 8 finished",
        "the request timed out after 30 s: https://example.org",
        "memory: 3.2 GB used of 8 GB",
        "BNNSGraphContextExecute_v2 took 3 ms",
    ],
)
def test_ordinary_lines_match_nothing(line: str) -> None:
    assert explain_line(line) == []


def test_details() -> None:
    hit = _the_hit("Tensor width goes beyond limit supported (16414/16390 > 16384)")
    assert hit.details == {"axis": "width", "extent": "16414/16390", "limit": "16384"}
    assert hit.rules[:1] == ("ne-extent-16384",)
    hit = _the_hit(
        "a/coremldata.bin is not a valid .mlmodelc file: first word (1329865020) is not recognizable"
    )
    assert hit.details == {"word": "'<!DO'"}


def test_rules_of_an_operation() -> None:
    assert _the_hit('Unsupported MIL operation "cumsum".').rules == ("ne-cumsum",)
    assert _the_hit("Unsupported op 12 (logical_or): no engine path").rules == ("ne-logical-or",)


@pytest.mark.parametrize(
    "filler",
    [
        "could not open ",
        "loading ",
        "feature '",
        "ANECCompile(",
        "Unsupported op 1 (",
        "Layer 'a' of type ",
        "EXC_ BNNSGraphContextExecut ",
        "Non-zero status code returned while running CoreML",
        "Kernel validation warning ",
        "at a:1:1: NSUnderlyingError ",
    ],
)
def test_patterns_take_linear_time(filler: str) -> None:
    """A line of 64 kB takes a moment, not minutes, whatever it repeats."""
    line = filler * (65536 // len(filler)) + " weight.bi error code: -1"
    explain_line(line)
    find_reason(line)
