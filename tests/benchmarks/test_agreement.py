"""Floors of agreement with published plans and latencies: a false rule fails, whatever its tests say."""

from __future__ import annotations

import json

import pytest

from benchmarks.agreement import FLOORS, differences, measure


# coremltools compares the ranges of types in float16.
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_no_publication_is_reproduced_less_than_before() -> None:
    floors = json.loads(FLOORS.read_text())
    found = measure()
    assert set(found) == set(floors), "run `python -m benchmarks.agreement --write`"
    worse = {name: (floor, found[name]) for name, floor in floors.items() if found[name] < floor}
    assert not worse


def test_differences_name_the_subject_and_both_numbers() -> None:
    assert list(differences({"one": 1, "new": 2}, {"one": 3, "gone": 1})) == [
        "gone: 1 -> none",
        "new: none -> 2",
        "one: 3 -> 1",
    ]
