"""Finds the cheapest path through a list of operations: which backend runs each, by Core ML's planned costs.

Core ML asks every backend whether it runs an operation and at what cost, and takes the shortest path through
the list in order. Entering the Neural Engine or the GPU costs a launch, changing the backend costs a switch,
and ending on the Neural Engine has a cost of its own. All of this was derived from published plans.

Many plans are ties: the last `relu` may cost exactly the same on the Neural Engine, after its network, as
on the CPU. In Core ML the last bit decides, which `ties` reproduces where all costs are known exactly. Here
costs within `TIE_MS` are equal, and one of the equal paths is chosen by rules, so that the choice does not
depend on rounding:

1. the fewest changes of backend: an operation at the end of the list stays on the backend of its neighbour;
2. changes as early as possible: an operation between two backends goes to that of the following one, as in
   published plans (the `relu` after an addition on the GPU goes to the Neural Engine with the convolution);
3. the later backend in the order of `BACKENDS`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from coremlscope.planning.placement.backend import BACKENDS, Backend
from coremlscope.results.plan import TIE_MS

#: Far more than what rounding makes of equal costs.
_SOME_MS = 1e-6


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
        best_ms: For each operation, by backend: the cost of the cheapest path that runs it there. The
            smallest value is `total_ms`; differences are the cost of a choice.
        reached_ms: For each operation, by backend: the cost of the cheapest path up to and including it.
    """

    backends: tuple[Backend, ...]
    total_ms: float
    best_ms: tuple[Mapping[Backend, float], ...]
    reached_ms: tuple[Mapping[Backend, float], ...]


#: The cheapest path up to an operation: its cost in milliseconds and its number of changes of backend.
_Reached = tuple[float, int]


def search(costs: Sequence[Mapping[Backend, float]], transition_costs: TransitionCosts) -> Route:
    """Finds the cheapest path through a list of operations.

    Args:
        costs: For each operation, its cost on every backend that may run it, in milliseconds.
        transition_costs: The costs of a path besides its operations.

    Raises:
        ValueError: An operation has no backend.
    """
    if not costs:
        return Route((), 0.0, (), ())
    reached, path, total = _forward(costs, transition_costs)
    backward = _backward(costs, transition_costs)
    best = tuple(
        {backend: ahead + behind[backend] for backend, (ahead, _) in forward.items()}
        for forward, behind in zip(reached, backward, strict=True)
    )
    so_far = tuple({backend: ms for backend, (ms, _) in forward.items()} for forward in reached)
    return Route(path, total, best, so_far)


def _ordered(costs: Mapping[Backend, float]) -> tuple[tuple[Backend, float], ...]:
    """The costs by backend in the order in which a later one wins a tie."""
    ordered = tuple((backend, costs[backend]) for backend in BACKENDS if backend in costs)
    if not ordered:
        raise ValueError("an operation has no backend")
    return ordered


def _preferred(reached: Mapping[Backend, _Reached], without: Backend | None = None) -> Backend | None:
    """The backend with the cheapest path; of equal ones that with fewest changes, then the later one."""
    chosen: Backend | None = None
    least, fewest = math.inf, 0
    for backend, (cost, changes) in reached.items():
        if cost > least + TIE_MS or backend == without:
            continue
        if cost < least - TIE_MS or changes <= fewest:
            chosen, least, fewest = backend, min(cost, least), changes
    return chosen


def _forward(
    costs: Sequence[Mapping[Backend, float]], transition_costs: TransitionCosts
) -> tuple[list[dict[Backend, _Reached]], tuple[Backend, ...], float]:
    """For each operation and backend the cheapest path up to and including it; then the whole path's."""
    launch, switch, finish = (
        transition_costs.launch_ms,
        transition_costs.switch_ms,
        transition_costs.finish_ms,
    )
    entry = {backend: switch + launch.get(backend, 0.0) for backend in BACKENDS}
    # Equal operations share their costs.
    ordered = {key: _ordered(cost) for key, cost in {id(cost): cost for cost in costs}.items()}
    now = {b: (launch.get(b, 0.0) + spent, 0) for b, spent in ordered[id(costs[0])]}
    reached, origins = [now], []
    for cost in costs[1:]:
        before, now, origin = now, {}, {}
        first = _preferred(before)
        for b, spent in ordered[id(cost)]:
            # Another path that enters the backend of the cheapest one is only cheaper if entering is free.
            a = first if b != first else None if entry[b] > _SOME_MS else _preferred(before, first)
            stay = before.get(b)
            if a is not None:
                way, changes = before[a]
                moved = way + entry[b]
                # Of equal paths, that which stays changes earlier.
                if (
                    stay is None
                    or moved < stay[0] - TIE_MS
                    or (moved <= stay[0] + TIE_MS and changes + 1 < stay[1])
                ):
                    now[b], origin[b] = (moved + spent, changes + 1), a
                    continue
            assert stay is not None
            now[b], origin[b] = (stay[0] + spent, stay[1]), b
        reached.append(now)
        origins.append(origin)
    ends = {b: (cost + finish.get(b, 0.0), changes) for b, (cost, changes) in now.items()}
    last = _preferred(ends)
    assert last is not None
    path = [last]
    for origin in reversed(origins):
        path.append(origin[path[-1]])
    return reached, tuple(reversed(path)), ends[last][0]


def _backward(
    costs: Sequence[Mapping[Backend, float]], transition_costs: TransitionCosts
) -> list[dict[Backend, float]]:
    """For each operation and backend: the cheapest path from after it to the end."""
    entry = {b: transition_costs.switch_ms + transition_costs.launch_ms.get(b, 0.0) for b in BACKENDS}
    ahead = [{b: transition_costs.finish_ms.get(b, 0.0) for b in costs[-1]}]
    for here, after in zip(reversed(costs[:-1]), reversed(costs[1:]), strict=True):
        rest = {b: after[b] + spent for b, spent in ahead[-1].items()}
        move = min(entry[b] + way for b, way in rest.items())
        ahead.append({a: min(rest.get(a, math.inf), move) for a in here})
    ahead.reverse()
    return ahead
