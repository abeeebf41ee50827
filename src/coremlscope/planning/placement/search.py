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

A set of costs takes a microsecond for each operation.
"""

from __future__ import annotations

import operator
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
_FAR = 1 << 62
#: For each planned backend: 1 for those that are another one.
_OFF = tuple(tuple(int(one != planned) for one in BACKENDS) for planned in BACKENDS)


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
    width = prices.shape[2]
    columns = [
        _find_path(list(map(tuple, of_kinds)), kinds, entering, switch_ms, ending, chosen)
        for of_kinds, entering, ending, chosen in zip(
            prices.transpose(2, 0, 1).tolist(),
            np.broadcast_to(launches, (len(BACKENDS), width)).T.tolist(),
            np.broadcast_to(finishes, (len(BACKENDS), width)).T.tolist(),
            [None] * width if planned is None else planned.T.tolist(),
            strict=True,
        )
    ]
    reached = np.array([costs for *_, costs in columns]).reshape(width, -1, len(BACKENDS))
    return (
        np.array([path for path, *_ in columns], dtype=np.uint8).T,
        np.array([total for _, total, _ in columns]),
        reached.transpose(1, 2, 0),
    )


_Four = tuple[float, ...]


def _find_path(
    prices: Sequence[_Four],
    kinds: Sequence[int],
    launches: _Four,
    switch_ms: float,
    finishes: _Four,
    planned: Sequence[int] | None,
) -> tuple[list[int], float, list[_Four]]:
    """Finds the cheapest path of one column; see `find_paths`.

    The four backends are written out: a step takes a microsecond, and thirty with arrays.
    """
    enter_0, enter_1, enter_2, enter_3 = (launch + switch_ms for launch in launches)
    ms_0, ms_1, ms_2, ms_3 = map(operator.add, prices[kinds[0]], launches)
    # The second key: changes of backend, or operations off their planned backends.
    key_0, key_1, key_2, key_3 = (0, 0, 0, 0) if planned is None else _OFF[planned[0]]
    change = int(planned is None)
    reached: list[_Four] = [(ms_0, ms_1, ms_2, ms_3)]
    origins = []
    for index in range(1, len(kinds)):
        first, way, more = _cheapest(ms_0, ms_1, ms_2, ms_3, key_0, key_1, key_2, key_3)
        more += change
        from_0, from_1, from_2, from_3 = 0, 1, 2, 3
        # Of equal paths, that which stays changes earlier.
        ms = way + enter_0
        if ms <= ms_0 + TIE_MS and (more < key_0 or ms < ms_0 - TIE_MS):
            ms_0, key_0, from_0 = ms, more, first
        ms = way + enter_1
        if ms <= ms_1 + TIE_MS and (more < key_1 or ms < ms_1 - TIE_MS):
            ms_1, key_1, from_1 = ms, more, first
        ms = way + enter_2
        if ms <= ms_2 + TIE_MS and (more < key_2 or ms < ms_2 - TIE_MS):
            ms_2, key_2, from_2 = ms, more, first
        ms = way + enter_3
        if ms <= ms_3 + TIE_MS and (more < key_3 or ms < ms_3 - TIE_MS):
            ms_3, key_3, from_3 = ms, more, first
        origins.append((from_0, from_1, from_2, from_3))
        more_0, more_1, more_2, more_3 = prices[kinds[index]]
        ms_0, ms_1, ms_2, ms_3 = ms_0 + more_0, ms_1 + more_1, ms_2 + more_2, ms_3 + more_3
        if planned is None:
            reached.append((ms_0, ms_1, ms_2, ms_3))
        else:
            off_0, off_1, off_2, off_3 = _OFF[planned[index]]
            key_0, key_1, key_2, key_3 = key_0 + off_0, key_1 + off_1, key_2 + off_2, key_3 + off_3
    ms_0, ms_1, ms_2, ms_3 = map(operator.add, (ms_0, ms_1, ms_2, ms_3), finishes)
    last, total_ms, _ = _cheapest(ms_0, ms_1, ms_2, ms_3, key_0, key_1, key_2, key_3)
    path = [last]
    for origin in reversed(origins):
        path.append(origin[path[-1]])
    return path[::-1], total_ms, reached if planned is None else []


def _cheapest(
    ms_0: float, ms_1: float, ms_2: float, ms_3: float, key_0: int, key_1: int, key_2: int, key_3: int
) -> tuple[int, float, int]:
    """The backend with the cheapest path, its cost and second key; of equal ones the later."""
    near = min(ms_0, ms_1, ms_2, ms_3) + TIE_MS
    first, least, key = 0, ms_0, key_0 if ms_0 <= near else _FAR
    if ms_1 <= near and key_1 <= key:
        first, least, key = 1, ms_1, key_1
    if ms_2 <= near and key_2 <= key:
        first, least, key = 2, ms_2, key_2
    if ms_3 <= near and key_3 <= key:
        first, least, key = 3, ms_3, key_3
    return first, least, key


def _ahead(prices: Floats, kinds: Sequence[int], entries: Floats, finishes: Floats) -> Floats:
    """The cheapest path from after each operation to the end, by operation, backend and column."""
    columns = []
    enter_0, enter_1, enter_2, enter_3 = entries[:, 0].tolist()
    for of_kinds in prices.transpose(2, 0, 1).tolist():
        ms_0, ms_1, ms_2, ms_3 = finishes[:, 0].tolist()
        ahead = [(ms_0, ms_1, ms_2, ms_3)]
        for kind in reversed(kinds[1:]):
            more_0, more_1, more_2, more_3 = of_kinds[kind]
            ms_0, ms_1, ms_2, ms_3 = ms_0 + more_0, ms_1 + more_1, ms_2 + more_2, ms_3 + more_3
            entered = min(enter_0 + ms_0, enter_1 + ms_1, enter_2 + ms_2, enter_3 + ms_3)
            ms_0 = entered if entered < ms_0 else ms_0  # Calls of `min` take longer.
            ms_1 = entered if entered < ms_1 else ms_1
            ms_2 = entered if entered < ms_2 else ms_2
            ms_3 = entered if entered < ms_3 else ms_3
            ahead.append((ms_0, ms_1, ms_2, ms_3))
        columns.append(ahead[::-1])
    return np.array(columns).transpose(1, 2, 0)
