"""Planning again under many hypotheses agrees with a search under each of them."""

from __future__ import annotations

import random

import pytest

from coremlscope.planning.placement import replan as replan_module
from coremlscope.planning.placement.backend import BACKENDS
from coremlscope.planning.placement.replan import replan
from coremlscope.planning.placement.search import TransitionCosts
from tests.support.planned_rows import route_of

TRANSITIONS = TransitionCosts({"ane": 0.125, "mps_graph": 0.1}, 0.125, {"ane": 0.125})


def _random_costs(seed: int, count: int) -> list[dict[str, float]]:
    drawn = random.Random(seed)
    costs = []
    for _ in range(count):
        runs = [backend for backend in BACKENDS if backend == "bnns" or drawn.random() < 0.8]
        costs.append({backend: drawn.random() * 0.1 for backend in runs})
    return costs


@pytest.mark.parametrize("seed", range(6))
def test_every_hypothesis_has_the_cost_of_its_own_search(seed: int) -> None:
    costs = _random_costs(seed, 60)
    drawn = random.Random(seed)
    changes = [
        {index: {**costs[index], "ane": 0.001} for index in drawn.sample(range(60), size)}
        for size in (0, 1, 5, 30)
    ]
    changes.append({3: {"classic_cpu": 4.0}})
    planned = route_of(costs, TRANSITIONS)
    for changed, (path, total) in zip(
        changes, replan(costs, changes, planned.backends, TRANSITIONS), strict=True
    ):
        alone = route_of([changed.get(index, known) for index, known in enumerate(costs)], TRANSITIONS)
        assert total == pytest.approx(alone.total_ms, abs=1e-9)
        assert path == alone.backends


def test_without_a_change_nothing_moves_though_paths_cost_the_same() -> None:
    costs = [dict.fromkeys(BACKENDS, 1.0)] * 4
    for chosen in (("bnns",) * 4, ("classic_cpu",) * 4):
        ((path, total),) = replan(costs, [{}], chosen, TRANSITIONS)
        assert (path, total) == (chosen, 4.0)


def test_hypotheses_are_planned_in_parts_where_memory_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = _random_costs(1, 20)
    changes = [{index: {"bnns": 0.0}} for index in range(7)]
    chosen = route_of(costs, TRANSITIONS).backends
    whole = replan(costs, changes, chosen, TRANSITIONS)
    monkeypatch.setattr(replan_module, "_MOST_PATHS", 60)
    assert replan(costs, changes, chosen, TRANSITIONS) == whole


def test_without_operations_or_hypotheses() -> None:
    assert replan([], [{}], [], TRANSITIONS) == [((), 0.0)]
    assert replan([{"bnns": 1.0}], [], ["bnns"], TRANSITIONS) == []
