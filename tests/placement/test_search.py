from __future__ import annotations

import itertools
import math
import random

import pytest

from coremlscope.planning.placement.backend import BACKENDS
from coremlscope.planning.placement.search import TransitionCosts
from coremlscope.results.plan import TIE_MS
from tests.support.planned_rows import route_of

TRANSITION_COSTS = TransitionCosts({"ane": 0.125, "mps_graph": 0.125}, 0.125, {"ane": 0.125})


def cost_of(path, costs, transition_costs) -> float:
    total = transition_costs.launch_ms.get(path[0], 0.0) + transition_costs.finish_ms.get(path[-1], 0.0)
    for before, after in itertools.pairwise(path):
        if before != after:
            total += transition_costs.switch_ms + transition_costs.launch_ms.get(after, 0.0)
    return total + sum(cost[backend] for cost, backend in zip(costs, path, strict=True))


def test_an_empty_path_is_free() -> None:
    assert route_of([], TRANSITION_COSTS).backends == ()
    assert route_of([], TRANSITION_COSTS).total_ms == 0.0


@pytest.mark.parametrize("seed", range(25))
def test_no_path_is_cheaper(seed: int) -> None:
    random_ = random.Random(seed)
    costs = []
    for _ in range(6):
        some = random_.sample(BACKENDS, random_.randint(1, 4))
        costs.append({backend: random_.uniform(0, 0.5) for backend in some})
    route = route_of(costs, TRANSITION_COSTS)
    paths = itertools.product(*(tuple(cost) for cost in costs))
    every = {path: cost_of(path, costs, TRANSITION_COSTS) for path in paths}
    assert route.total_ms == pytest.approx(min(every.values()))
    assert cost_of(route.backends, costs, TRANSITION_COSTS) == pytest.approx(route.total_ms)
    for index, best in enumerate(route.best_ms):
        for backend, known in zip(BACKENDS, best, strict=True):
            if backend not in costs[index]:
                assert known == math.inf
                continue
            through = min(cost for path, cost in every.items() if path[index] == backend)
            assert known == pytest.approx(through)


@pytest.mark.parametrize(
    ("saved_ms", "place"),
    [(0.2499, "classic_cpu"), (0.2501, "ane")],
)
def test_a_whole_graph_must_save_a_quarter_of_a_millisecond(saved_ms: float, place: str) -> None:
    costs = [{"ane": 0.01, "classic_cpu": 0.01 + saved_ms / 4}] * 4
    assert set(route_of(costs, TRANSITION_COSTS).backends) == {place}


@pytest.mark.parametrize(("saved_ms", "place"), [(0.3749, "classic_cpu"), (0.3751, "ane")])
def test_a_segment_in_the_middle_must_save_three_eighths(saved_ms: float, place: str) -> None:
    ends = [{"classic_cpu": 0.1}]
    middle = [{"ane": 0.01, "classic_cpu": 0.01 + saved_ms / 2}] * 2
    route = route_of([*ends, *middle, *ends], TRANSITION_COSTS)
    assert route.backends[1:3] == (place, place)


def test_of_two_equal_paths_the_later_backend_wins() -> None:
    assert route_of([{"bnns": 1.0, "classic_cpu": 1.0}], TransitionCosts()).backends == ("classic_cpu",)
    assert route_of([{"mps_graph": 1.0, "bnns": 1.0}], TransitionCosts()).backends == ("bnns",)


def test_a_tie_at_the_end_stays_with_its_neighbour() -> None:
    """Four convolutions with relu around one operation, on an M4: the last relu may go either way.

    The running sums of both paths differ by the last bit, one way or the other by the bytes of the operation.
    """
    conv = {"ane": 0.0046742807655237523, "bnns": 0.10006388175261005, "classic_cpu": 0.11509533067856016}
    relu = dict.fromkeys(("ane", "bnns", "classic_cpu"), 0.0026214400000000001)
    for nbytes in range(262144, 262164, 2):
        slow = nbytes / 60.845367296e9 * 1e3
        op = {"ane": nbytes / (68 * 2**30) * 1e3, "bnns": slow, "classic_cpu": slow}
        costs = [conv, relu, conv, relu, op, conv, relu, conv, relu]
        route = route_of(costs, TRANSITION_COSTS)
        assert route.backends == ("ane",) * 9
        assert route.best_ms[-1][BACKENDS.index("classic_cpu")] == pytest.approx(route.total_ms, abs=TIE_MS)


def test_a_tie_between_two_backends_goes_with_the_following_operation() -> None:
    """As in the plan of ResNet-50 on an M4 Pro: an addition on the GPU, relu, convolutions around both."""
    conv = {"mps_graph": 9.0, "ane": 1.0}
    addition = {"mps_graph": 1.0, "ane": 2.0}
    tie = {"mps_graph": 0.1, "ane": 0.1}
    transitions = TransitionCosts({"ane": 0.125, "mps_graph": 0.125}, 0.125)
    route = route_of([conv, addition, tie, conv], transitions)
    assert route.backends == ("ane", "mps_graph", "ane", "ane")
    assert route_of([conv, tie, addition, conv], transitions).backends == (
        "ane",
        "mps_graph",
        "mps_graph",
        "ane",
    )


def test_an_operation_without_a_backend_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no backend"):
        route_of([{"ane": 1.0}, {}], TRANSITION_COSTS)


def test_totals_are_finite() -> None:
    assert math.isfinite(route_of([{"ane": 0.0}] * 5000, TRANSITION_COSTS).total_ms)
