"""Plans a list of operations again under many hypotheses at once, each with other costs for some operations.

All hypotheses take one pass over the operations, as columns of arrays: 20 of them over 3,000 operations take
a tenth of a second. Where paths cost the same, the one that stays closest to the present plan is taken, so
that an operation which moves does so because of the hypothesis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from coremlscope.placement.backend import BACKENDS, Backend
from coremlscope.placement.search import TIE_MS, TransitionCosts

__all__ = ["Costs", "replan"]

#: Costs of an operation on each backend that may run it, in milliseconds.
Costs = Mapping[Backend, float]

#: Operations times hypotheses whose arrays are held at once: about 130 MB.
_MOST_PATHS = 2_000_000
#: Operations whose ways are compared at once.
_BLOCK = 256

_Floats = npt.NDArray[np.float64]
_Places = npt.NDArray[np.int64]


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
    prices = _prices(costs, changes)
    steps = _steps(transition_costs)
    reached = _forward(prices, steps, transition_costs)
    finish = np.array([transition_costs.finish_ms.get(backend, 0.0) for backend in BACKENDS])
    ends = reached[-1] + finish
    paths = _backward(reached, steps, ends, np.array([BACKENDS.index(backend) for backend in chosen]))
    return [
        (tuple(BACKENDS[place] for place in path), float(total))
        for path, total in zip(paths.T, ends.min(axis=1), strict=True)
    ]


def _prices(costs: Sequence[Costs], changes: Sequence[Mapping[int, Costs]]) -> _Floats:
    """Costs by operation, hypothesis and backend; infinite where a backend does not run an operation."""
    base = np.array([_row(known) for known in costs])
    prices = np.repeat(base[:, np.newaxis], len(changes), axis=1)
    for place, changed in enumerate(changes):
        for index, known in changed.items():
            prices[index, place] = _row(known)
    return prices


def _row(known: Costs) -> list[float]:
    return [known.get(backend, np.inf) for backend in BACKENDS]


def _steps(transition_costs: TransitionCosts) -> _Floats:
    """The cost of going from one backend (row) to another (column)."""
    launches = np.array([transition_costs.launch_ms.get(backend, 0.0) for backend in BACKENDS])
    steps = np.tile(transition_costs.switch_ms + launches, (len(BACKENDS), 1))
    np.fill_diagonal(steps, 0.0)
    return steps


def _forward(prices: _Floats, steps: _Floats, transition_costs: TransitionCosts) -> _Floats:
    """The cost of the cheapest path up to and including each operation, by hypothesis and backend."""
    reached = np.empty_like(prices)
    launches = [transition_costs.launch_ms.get(backend, 0.0) for backend in BACKENDS]
    reached[0] = prices[0] + launches
    for index in range(1, len(prices)):
        ways = reached[index - 1][:, :, np.newaxis] + steps
        np.add(ways.min(axis=1), prices[index], out=reached[index])
    return reached


def _backward(reached: _Floats, steps: _Floats, ends: _Floats, chosen: _Places) -> _Places:
    """The places of the backends along the cheapest paths, by operation and hypothesis."""
    hypotheses = np.arange(ends.shape[0])
    paths = np.empty(reached.shape[:2], dtype=np.int64)
    ties = ends <= ends.min(axis=1, keepdims=True) + TIE_MS
    paths[-1] = np.where(ties[:, chosen[-1]], chosen[-1], ends.argmin(axis=1))
    for last in range(len(reached) - 1, 0, -_BLOCK):
        first = max(last - _BLOCK, 0)
        before = _cheapest_before(reached[first:last], steps, chosen[first:last])
        for index in range(last - 1, first - 1, -1):
            paths[index] = before[index - first, hypotheses, paths[index + 1]]
    return paths


def _cheapest_before(reached: _Floats, steps: _Floats, chosen: _Places) -> _Places:
    """The cheapest backend before each backend of the next operation, by operation and hypothesis.

    Of equal ones it is the planned one, then that of the next operation.
    """
    ways = reached[:, :, np.newaxis, :] + steps.T
    ties = ways <= ways.min(axis=3, keepdims=True) + TIE_MS
    places = np.arange(len(BACKENDS))
    taken = np.where(ties[:, :, places, places], places, ways.argmin(axis=3))
    planned = chosen[:, np.newaxis, np.newaxis]
    is_planned = np.take_along_axis(ties, planned[..., np.newaxis], axis=3)[..., 0]
    return np.where(is_planned, planned, taken)
