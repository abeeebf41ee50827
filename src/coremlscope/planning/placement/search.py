"""Finds the cheapest path through a list of operations: which backend runs each, by Core ML's planned costs.

Core ML asks every backend whether it runs an operation and at what cost, and takes the shortest path through
the list in order. Entering the Neural Engine or the GPU costs a launch, changing the backend costs a switch,
and ending on the Neural Engine has a cost of its own. All of this was derived from published plans.

Many plans are ties: the last `relu` may cost exactly the same on the Neural Engine, after its network, as
on the CPU. In Core ML the last bit decides, which `ties` reproduces where all costs are known exactly. Here
costs within `TIE_MS` are equal, and one of the equal paths is chosen by rules, so that the choice does not
depend on rounding:

1. the fewest changes of backend: an operation at the end of the list stays on the backend of its neighbour.
   Where something is planned again, instead the fewest operations off their planned backends: what moves
   does so because of the costs;
2. changes as early as possible: an operation between two backends goes to that of the following one, as in
   published plans (the `relu` after an addition on the GPU goes to the Neural Engine with the convolution);
3. the later backend in the order of `BACKENDS`.

Many sets of costs take one pass over the operations, as columns of arrays: 600 of them over 3,000 operations
take half a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from coremlscope.planning.placement.backend import BACKENDS, Backend
from coremlscope.results.plan import TIE_MS

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.uint8]
#: Costs of an operation on each backend that may run it, in milliseconds.
Costs = Mapping[Backend, float]

#: More than there are operations.
_FAR = np.iinfo(np.int64).max


class Bounds(msgspec.Struct, frozen=True):
    """The interval of a cost in milliseconds."""

    low: float
    high: float


class TransitionCosts(msgspec.Struct, frozen=True):
    """The costs of a path besides its operations, in milliseconds.

    Attributes:
        launch_ms: The cost of entering a backend.
        switch_ms: The cost of every change of backend.
        finish_ms: The cost of ending on a backend.
        launch_bounds: The intervals of costs of entering that are not known exactly.
    """

    launch_ms: Mapping[Backend, float] = msgspec.field(default_factory=dict)
    switch_ms: float = 0.0
    finish_ms: Mapping[Backend, float] = msgspec.field(default_factory=dict)
    launch_bounds: Mapping[Backend, Bounds] = msgspec.field(default_factory=dict)


class Route(msgspec.Struct, frozen=True):
    """The cheapest path.

    Attributes:
        backends: The backend of each operation.
        total_ms: The cost of the whole path, transitions included.
        best_ms: By operation and backend, in the order of `BACKENDS`: the cost of the cheapest path that runs
            it there. The smallest value is `total_ms`; differences are the cost of a choice. Infinite where a
            backend does not run it.
        reached_ms: Likewise: the cost of the cheapest path up to and including it.
    """

    backends: tuple[Backend, ...]
    total_ms: float
    best_ms: Sequence[Sequence[float]]
    reached_ms: Sequence[Sequence[float]]


def search(costs: Sequence[Sequence[Costs]], transition_costs: TransitionCosts) -> list[Route]:
    """Finds the cheapest path through a list of operations under each of several sets of costs.

    Args:
        costs: For each set, for each operation: its cost on every backend that may run it, in milliseconds.
            Equal operations may share their costs.
        transition_costs: The costs of a path besides its operations.

    Raises:
        ValueError: An operation has no backend.
    """
    if not costs or not costs[0]:
        return [Route((), 0.0, (), ()) for _ in costs]
    kinds: dict[tuple[int, ...], int] = {}
    of_kind: list[Sequence[Costs]] = []
    numbers = []
    for of_op in zip(*costs, strict=True):
        key = tuple(map(id, of_op))
        if key not in kinds:
            kinds[key] = len(of_kind)
            of_kind.append(of_op)
        numbers.append(kinds[key])
    prices = np.array([[by_backend(one) for one in of_op] for of_op in of_kind]).transpose(0, 2, 1)
    if np.isinf(prices).all(axis=1).any():
        raise ValueError("an operation has no backend")
    launches, finishes = (
        np.array([by_backend(known, 0.0)]).T
        for known in (transition_costs.launch_ms, transition_costs.finish_ms)
    )
    entries = launches + transition_costs.switch_ms
    places, total_ms, reached = find_paths(prices, numbers, launches, transition_costs.switch_ms, finishes)
    best = reached + _ahead(prices, numbers, entries, finishes)
    return [
        Route(
            tuple(BACKENDS[place] for place in places[:, column].tolist()),
            float(total_ms[column]),
            best[:, :, column].tolist(),
            reached[:, :, column].tolist(),
        )
        for column in range(len(costs))
    ]


def by_backend(costs: Costs, missing: float = np.inf) -> list[float]:
    """Costs in the order of `BACKENDS`; infinite where a backend does not run an operation."""
    return [costs.get(backend, missing) for backend in BACKENDS]


def find_paths(
    prices: Floats,
    kinds: Sequence[int],
    launches: Floats,
    switch_ms: float,
    finishes: Floats,
    planned: Places | None = None,
) -> tuple[Places, Floats, Floats]:
    """Finds the cheapest path of every column.

    Args:
        prices: Costs by kind of operation, backend and column in milliseconds; infinite where a backend does
            not run it.
        kinds: The kind of each operation.
        launches: The cost of entering each backend, by backend and column.
        switch_ms: The cost of changing the backend.
        finishes: The cost of ending on each backend, by backend and column.
        planned: The place of each operation's planned backend in `BACKENDS`, by operation and column, where
            something is planned again.

    Returns:
        The place of each operation's backend, by operation and column; the cost of the whole path, by column;
        the cost of the cheapest path up to and including each operation, by operation, backend and column,
        which is empty where something is planned again.
    """
    count, columns = len(kinds), np.arange(prices.shape[2])
    own = np.arange(len(BACKENDS), dtype=np.uint8)[:, np.newaxis]
    entries = launches + switch_ms
    origins = np.empty((count, len(BACKENDS), len(columns)), dtype=np.uint8)
    reached = np.empty(origins.shape if planned is None else (0, len(BACKENDS), len(columns)))
    cost = prices[kinds[0]] + launches
    # The second key: changes of backend, or operations off their planned backends.
    second = np.zeros(cost.shape, np.int64) if planned is None else (own != planned[0]).astype(np.int64)
    for index in range(1, count):
        if planned is None:
            reached[index - 1] = cost
        first = _preferred(cost, second)
        moved, more = cost[first, columns] + entries, second[first, columns] + (planned is None)
        # Of equal paths, that which stays changes earlier.
        moves = (moved < cost - TIE_MS) | ((moved <= cost + TIE_MS) & (more < second))
        origins[index] = np.where(moves, first, own)
        cost = np.where(moves, moved, cost) + prices[kinds[index]]
        second = np.where(moves, more, second)
        if planned is not None:
            second += own != planned[index]
    if planned is None:
        reached[count - 1] = cost
    ends = cost + finishes
    places = np.empty((count, len(columns)), dtype=np.uint8)
    places[-1] = _preferred(ends, second)
    for index in range(count - 1, 0, -1):
        places[index - 1] = origins[index][places[index], columns]
    return places, ends[places[-1], columns], reached


def _preferred(cost: Floats, second: npt.NDArray[np.int64]) -> Places:
    """The backend with the cheapest path of each column; of equal ones by the second key, then the later."""
    rank = np.where(cost <= cost.min(axis=0) + TIE_MS, second, _FAR)
    chosen: Places = len(BACKENDS) - 1 - rank[::-1].argmin(axis=0).astype(np.uint8)
    return chosen


def _ahead(prices: Floats, kinds: Sequence[int], entries: Floats, finishes: Floats) -> Floats:
    """The cheapest path from after each operation to the end, by operation, backend and column."""
    ahead = np.empty((len(kinds), *prices.shape[1:]))
    ahead[-1] = finishes
    for index in range(len(kinds) - 2, -1, -1):
        rest = ahead[index + 1] + prices[kinds[index + 1]]
        ahead[index] = np.minimum(rest, (entries + rest).min(axis=0))
    return ahead
