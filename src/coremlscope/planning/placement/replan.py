"""Plans a list of operations again under many hypotheses at once, each with other costs for some operations.

All hypotheses take one pass over the operations: 20 of them over 3,000 operations take a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coremlscope.planning.placement.backend import BACKENDS, Backend
from coremlscope.planning.placement.search import Costs, Floats, TransitionCosts, by_backend, find_paths

#: Operations times hypotheses whose arrays are held at once: about 130 MB.
_MOST_PATHS = 2_000_000


def replan(
    costs: Sequence[Costs],
    changes: Sequence[Mapping[int, Costs]],
    chosen: Sequence[Backend],
    transition_costs: TransitionCosts,
) -> list[tuple[tuple[Backend, ...], float]]:
    """The cheapest path under each hypothesis: the backend of each operation, and the cost of the whole path.

    Args:
        costs: For each operation, its costs as planned.
        changes: For each hypothesis, other costs of some operations, by their position.
        chosen: The backend of each operation as planned.
        transition_costs: The costs of a path besides its operations.
    """
    if not costs or not changes:
        return [((), 0.0) for _ in changes]
    most = max(1, _MOST_PATHS // len(costs))
    return [
        found
        for first in range(0, len(changes), most)
        for found in _replan(costs, changes[first : first + most], chosen, transition_costs)
    ]


def _replan(
    costs: Sequence[Costs],
    changes: Sequence[Mapping[int, Costs]],
    chosen: Sequence[Backend],
    transition_costs: TransitionCosts,
) -> list[tuple[tuple[Backend, ...], float]]:
    """As `replan`, for hypotheses whose arrays fit memory together."""
    planned = np.array([[BACKENDS.index(backend)] for backend in chosen], dtype=np.uint8)
    places, totals, _ = find_paths(
        _prices(costs, changes),
        range(len(costs)),
        np.array([by_backend(transition_costs.launch_ms, 0.0)]).T,
        transition_costs.switch_ms,
        np.array([by_backend(transition_costs.finish_ms, 0.0)]).T,
        np.repeat(planned, len(changes), axis=1),
    )
    return [
        (tuple(BACKENDS[place] for place in path), total)
        for path, total in zip(places.T.tolist(), totals.tolist(), strict=True)
    ]


def _prices(costs: Sequence[Costs], changes: Sequence[Mapping[int, Costs]]) -> Floats:
    """Costs by operation, backend and hypothesis; infinite where a backend does not run an operation."""
    base = np.array([by_backend(known) for known in costs])
    prices = np.repeat(base[:, :, np.newaxis], len(changes), axis=2)
    for place, changed in enumerate(changes):
        for index, known in changed.items():
            prices[index, :, place] = by_backend(known)
    return prices
