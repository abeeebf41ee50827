"""Planned costs of all published single operations of an M4."""

from __future__ import annotations

from benchmarks.plan.singles import SINGLES, compare_singles


def test_all_published_costs_are_reproduced() -> None:
    (found,) = compare_singles()
    assert found.misses == []
    assert found.total > 2.5 * len(SINGLES)
