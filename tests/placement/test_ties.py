from __future__ import annotations

import itertools
import random

import pytest

from coremlscope.planning.placement import ties
from coremlscope.planning.placement.search import TransitionCosts
from coremlscope.planning.placement.ties import settle
from tests.support.planned_rows import route_of

TRANSITION_COSTS = TransitionCosts({"ane": 0.125}, 0.125, {"ane": 0.125})
#: Costs in published plans of an M4: a convolution on the Neural Engine and on the CPU, a relu on all units.
CONV = {"ane": 0.0046742807655237523, "bnns": 0.10006388175261005, "classic_cpu": 0.11509533067856016}
RELU = dict.fromkeys(CONV, 0.0026214400000000001)
LAYERS = [CONV, RELU, CONV, RELU]


def moving(nbytes: int) -> dict[str, float]:
    """Costs of an operation that is priced by bytes."""
    rates = {"ane": 73.014444032e9, "bnns": 60.845367296e9, "classic_cpu": 60.845367296e9}
    return {backend: nbytes / rate * 1e3 for backend, rate in rates.items()}


def settled(costs):
    return settle(costs, TRANSITION_COSTS, route_of(costs, TRANSITION_COSTS))


@pytest.mark.parametrize(
    ("between", "last"),
    [
        ([CONV], "classic_cpu"),
        ([], "classic_cpu"),  # relu, which coremltools merges with the one before it
        ([moving(262144)], "ane"),  # abs, floor, sign
        ([moving(262144 + 4)], "classic_cpu"),  # softmax, which has an axis
        ([moving(262144 + 2)], "classic_cpu"),  # inverse, which has an epsilon
        ([moving(262144 + 8)], "ane"),  # linear_activation, which has two parameters
    ],
)
def test_the_last_bit_decides_as_published(between, last: str) -> None:
    path = settled([*LAYERS, *between, *LAYERS])
    assert set(path[:-1]) == {"ane"}
    assert path[-1] == last


def sum_of(path, costs) -> tuple[float, int]:
    """The sum of a path in the order of Core ML, and its changes of backend."""
    segments = [list(run) for _, run in itertools.groupby(range(len(path)), key=lambda index: path[index])]
    total = None
    for segment in segments:
        backend = path[segment[0]]
        ms = 0.0
        for index in reversed(segment):
            ms += costs[index][backend]
        ms += TRANSITION_COSTS.launch_ms.get(backend, 0.0)
        is_last = segment is segments[-1]
        ms += TRANSITION_COSTS.finish_ms.get(backend, 0.0) if is_last else TRANSITION_COSTS.switch_ms
        total = ms if total is None else total + ms
    return total, len(segments) - 1


@pytest.mark.parametrize("seed", range(20))
def test_no_equal_path_has_a_smaller_sum(seed: int) -> None:
    random_ = random.Random(seed)
    shared = [random_.uniform(0.001, 0.01) for _ in range(3)]
    costs = []
    for _ in range(9):
        cost = random_.choice(shared)
        costs.append(
            random_.choice(
                [
                    dict.fromkeys(("ane", "bnns"), cost),
                    {"ane": cost, "bnns": cost + random_.choice((0.2, 0.4))},
                    {"bnns": cost},
                ]
            )
        )
    path = settled(costs)
    every = {one: sum_of(one, costs) for one in itertools.product(*(tuple(cost) for cost in costs))}
    assert every[path] == min(every.values())


def test_equal_costs_on_all_backends_stay_together() -> None:
    assert len(set(settled([RELU] * 50))) == 1


def test_no_operations_have_an_empty_path() -> None:
    assert settled([]) == ()


def test_ties_without_end_are_left_as_they_are(monkeypatch) -> None:
    costs = [*LAYERS, CONV, *LAYERS]
    monkeypatch.setattr(ties, "_MOST_ADDITIONS", 0)
    assert settled(costs) == route_of(costs, TRANSITION_COSTS).backends
