"""The trace, held against Chrome's Trace Event Format."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec.structs
import pytest

from coremlscope.reports.trace import render_trace
from tests.support.partial_profiles import PROFILES
from tests.support.planned_profiles import planned_profile
from tests.support.profiles import small_profile

Event = dict[str, Any]


@pytest.fixture(scope="module")
def events() -> list[Event]:
    trace = json.loads(render_trace(planned_profile()))
    assert trace["displayTimeUnit"] == "ms"
    found: list[Event] = trace["traceEvents"]
    return found


def names(events: list[Event], kind: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == kind}


def test_every_event_has_what_its_kind_needs(events: list[Event]) -> None:
    assert {e["ph"] for e in events} == {"M", "X", "s", "f"}
    for event in events:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["name"]
        if event["ph"] != "M":
            assert event["ts"] >= 0
            assert event["cat"]
        if event["ph"] == "X":
            assert event["dur"] >= 0
    known = names(events, "thread_name")
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] != "M"} <= set(known)


def test_slices_of_a_track_follow_each_other(events: list[Event]) -> None:
    for track in {(e["pid"], e["tid"]) for e in events}:
        end = 0.0
        for event in events:
            if event["ph"] == "X" and (event["pid"], event["tid"]) == track:
                assert event["ts"] >= end - 1e-6
                end = event["ts"] + event["dur"]


def test_processes_say_where_numbers_come_from(events: list[Event]) -> None:
    assert list(names(events, "process_name").values()) == [
        "measured: scripted 1.0 on Example 9000",
        "estimated: M1, all",
        "estimated: M1, cpu_only",
    ]
    tracks = names(events, "thread_name")
    assert [title for (process, _), title in tracks.items() if process == 2] == [
        "CPU",
        "GPU",
        "Neural Engine",
    ]
    for event in events:
        if event["ph"] == "X":
            process = names(events, "process_name")[event["pid"], 0]
            assert event["args"]["origin"].startswith(process.split()[0].removesuffix(":"))


def test_measured_times_are_microseconds(events: list[Event]) -> None:
    phases = [e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (1, 1)]
    assert Counter(e["name"] for e in phases) == {
        "warm-up of compile": 1,
        "compile": 3,
        "load": 1,
        "warm-up of predict": 2,
        "predict": 4,
    }
    assert phases[0]["dur"] == 500_000
    groups = [e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (1, 2)]
    assert [e["dur"] for e in groups] == pytest.approx([100, 600, 100, 200])
    assert [op["id"] for op in groups[1]["args"]["operations"]] == ["main/13", "main/16"]
    assert groups[1]["args"]["operations"][0]["results"] == "fp16 1×16×16×16"


def test_estimated_operations_lie_on_their_units(events: list[Event]) -> None:
    """What the plan charges for them is no duration: it is not drawn."""
    estimated = [e for e in events if e["ph"] == "X" and e["pid"] == 2]
    assert [(e["tid"], e["dur"]) for e in estimated] == [(1, 500), (3, 250), (1, 1000)]
    assert [op["type"] for op in estimated[1]["args"]["operations"]] == ["conv", "clip"]
    assert {e["cat"] for e in events if e["ph"] == "X"} == {"measured", "estimated"}


def test_arrows_where_the_unit_changes(events: list[Event]) -> None:
    arrows = [e for e in events if e["ph"] in "sf"]
    assert Counter(e["id"] for e in arrows) == dict.fromkeys({e["id"] for e in arrows}, 2)
    slices = [e for e in events if e["ph"] == "X"]
    for arrow in arrows:
        assert any(
            (e["pid"], e["tid"]) == (arrow["pid"], arrow["tid"])
            and e["ts"] <= arrow["ts"] < e["ts"] + e["dur"]
            for e in slices
        )
    assert [e["tid"] for e in arrows if e["pid"] == 2] == [1, 3, 3, 1]
    assert not [e for e in arrows if e["pid"] == 3]


def test_without_plans_there_is_what_was_measured() -> None:
    evil = "</script>\x1b[31m"
    ops = small_profile().ops
    named = msgspec.structs.replace(
        small_profile(), ops=msgspec.structs.replace(ops, name=(evil,) * len(ops))
    )
    text = render_trace(named)
    assert {e["pid"] for e in json.loads(text)["traceEvents"]} == {1}
    assert "\\x1b" in text
    assert "\x1b" not in text


def test_every_measurement_is_a_process() -> None:
    trace = json.loads(render_trace(PROFILES["several measurements"]()))
    found = trace["traceEvents"]
    assert list(names(found, "process_name").values()) == [
        "measured: scripted 1.0 on Example 9000, 2 threads",
        "measured: scripted 1.0 on Example 9000, 4 threads",
        "measured: Core ML on Apple M2, cpu_and_ne",
        "measured: Core ML on Apple M2, cpu_only",
    ]
    tracks = names(found, "thread_name")
    assert [title for (process, _), title in tracks.items() if process == 3] == ["phases"]


def test_nothing_but_operations() -> None:
    assert json.loads(render_trace(PROFILES["operations"]()))["traceEvents"] == []
