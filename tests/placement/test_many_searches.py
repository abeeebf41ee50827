"""Many searches at once agree with each of them alone."""

from __future__ import annotations

import random

import numpy as np
import pytest

from coremlscope.planning.placement.backend import BACKENDS
from coremlscope.planning.placement.search import TransitionCosts, find_paths
from tests.support.planned_rows import route_of

COLUMNS = 40


@pytest.mark.parametrize("seed", range(8))
def test_every_column_is_the_cheapest_path_of_its_costs(seed: int) -> None:
    """Launches, costs and the backends that run an operation are random; kinds of operations occur again."""
    drawn = random.Random(seed)
    runs = [[b for b in BACKENDS if b == "bnns" or drawn.random() < 0.7] for _ in range(9)]
    prices = np.full((len(runs), len(BACKENDS), COLUMNS), np.inf)
    for kind, backends in enumerate(runs):
        for backend in backends:
            prices[kind, BACKENDS.index(backend)] = [drawn.random() * 0.2 for _ in range(COLUMNS)]
    launches = np.array([[drawn.random() * 0.3 for _ in range(COLUMNS)] for _ in BACKENDS])
    finishes = np.array([[0.1], [0.0], [0.0], [0.125]])
    kinds = [drawn.randrange(len(runs)) for _ in range(50)]
    planned = np.full((len(kinds), COLUMNS), BACKENDS.index("bnns"), dtype=np.uint8)

    paths, totals, _ = find_paths(prices, kinds, launches, 0.05, finishes, planned)

    for column in range(COLUMNS):
        costs = [{b: float(prices[kind, BACKENDS.index(b), column]) for b in runs[kind]} for kind in kinds]
        transition_costs = TransitionCosts(
            {b: float(launches[place, column]) for place, b in enumerate(BACKENDS)},
            0.05,
            {b: float(finishes[place, 0]) for place, b in enumerate(BACKENDS)},
        )
        alone = route_of(costs, transition_costs)
        assert tuple(BACKENDS[place] for place in paths[:, column]) == alone.backends
        assert totals[column] == pytest.approx(alone.total_ms, abs=1e-9)


def test_equal_paths_stay_where_the_plan_is() -> None:
    prices = np.ones((1, len(BACKENDS), len(BACKENDS)))
    planned = np.tile(np.arange(len(BACKENDS), dtype=np.uint8), (4, 1))
    free = np.zeros((len(BACKENDS), 1))
    paths, totals, _ = find_paths(prices, [0] * 4, free, 0.125, free, planned)
    assert (paths == planned).all()
    assert totals == pytest.approx(4.0, abs=1e-12)
