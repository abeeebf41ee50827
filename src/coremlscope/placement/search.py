"""Finds the cheapest path through a list of operations: which backend runs each, by Core ML's planned costs.

Core ML asks every backend whether it runs an operation and at what cost, and takes the shortest path through
the list in order. Entering the Neural Engine or the GPU costs a launch, changing the backend costs a switch,
and ending on the Neural Engine has a cost of its own. All of this was derived from published plans.

Many plans are ties: the last `relu` may cost exactly the same on the Neural Engine, after its network, as on
the CPU. Published plans show both, decided by the last bit. They are reproduced where the cost of consecutive
operations is the difference of two running sums from the end, in double precision and milliseconds. So costs
are summed in this way here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coremlscope.placement.backend import BACKENDS, Backend

__all__ = ["Route", "TransitionCosts", "search"]


@dataclass(frozen=True, slots=True)
class TransitionCosts:
    """The costs of a path besides its operations, in milliseconds.

    Attributes:
        launch_ms: The cost of entering a backend.
        switch_ms: The cost of every change of backend.
        finish_ms: The cost of ending on a backend.
    """

    launch_ms: Mapping[Backend, float] = field(default_factory=dict)
    switch_ms: float = 0.0
    finish_ms: Mapping[Backend, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """The cheapest path.

    Attributes:
        backends: The backend of each operation.
        total_ms: The cost of the whole path, transitions included.
        best_ms: For each operation, by backend: the cost of the cheapest path that runs it there. The
            smallest value is `total_ms`; differences are the cost of a choice.
    """

    backends: tuple[Backend, ...]
    total_ms: float
    best_ms: tuple[Mapping[Backend, float], ...]


def search(costs: Sequence[Mapping[Backend, float]], transition_costs: TransitionCosts) -> Route:
    """The cheapest path through a list of operations.

    Args:
        costs: For each operation, its cost on every backend that may run it, in milliseconds.
        transition_costs: The costs of a path besides its operations.

    Raises:
        ValueError: An operation has no backend.
    """
    if not costs:
        return Route((), 0.0, ())
    steps = _steps(transition_costs)
    forward, came_from = _forward(costs, transition_costs, steps)
    backward = _backward(costs, transition_costs, steps)
    last = _ordered(costs[-1])[0]
    total = math.inf
    for backend in _ordered(costs[-1]):
        end = forward[-1][backend] + transition_costs.finish_ms.get(backend, 0.0)
        if end <= total:
            total, last = end, backend
    path = [last]
    for before in reversed(came_from):
        path.append(before[path[-1]])
    best = tuple(
        {backend: ahead[backend] + behind[backend] for backend in ahead}
        for ahead, behind in zip(forward, backward, strict=True)
    )
    return Route(tuple(reversed(path)), total, best)


def _ordered(costs: Mapping[Backend, float]) -> list[Backend]:
    """The backends in the order in which a later one wins a tie."""
    ordered = [backend for backend in BACKENDS if backend in costs]
    if not ordered:
        raise ValueError("an operation has no backend")
    return ordered


def _steps(transition_costs: TransitionCosts) -> dict[tuple[Backend, Backend], float]:
    return {
        (a, b): 0.0 if a == b else transition_costs.switch_ms + transition_costs.launch_ms.get(b, 0.0)
        for a in BACKENDS
        for b in BACKENDS
    }


def _running_sums(costs: Sequence[Mapping[Backend, float]]) -> dict[Backend, list[float]]:
    """By backend: for each operation, the cost there of it and all after it; one more entry for the end."""
    sums = {}
    for backend in BACKENDS:
        total, running = 0.0, [0.0]
        for cost in reversed(costs):
            total += cost.get(backend, 0.0)
            running.append(total)
        running.reverse()
        sums[backend] = running
    return sums


def _forward(
    costs: Sequence[Mapping[Backend, float]],
    transition_costs: TransitionCosts,
    steps: Mapping[tuple[Backend, Backend], float],
) -> tuple[list[dict[Backend, float]], list[dict[Backend, Backend]]]:
    """For each operation and backend: the cheapest path up to and including it, and the previous backend.

    A path is stored as the cost before its last run of operations on one backend, and the first of that run.
    """
    sums = _running_sums(costs)
    rows = {b: (transition_costs.launch_ms.get(b, 0.0), 0) for b in _ordered(costs[0])}
    reached = [{b: spent + (sums[b][0] - sums[b][1]) for b, (spent, _) in rows.items()}]
    came_from = []
    for index, cost in enumerate(costs[1:], start=1):
        before = reached[-1]
        now: dict[Backend, float] = {}
        origin: dict[Backend, Backend] = {}
        following: dict[Backend, tuple[float, int]] = {}
        for b in _ordered(cost):
            running = sums[b]
            ahead = running[index + 1]
            for a in before:
                spent, first = rows[a] if a == b else (before[a] + steps[a, b], index)
                way = spent + (running[first] - ahead)
                if b not in now or way <= now[b]:
                    now[b], origin[b], following[b] = way, a, (spent, first)
        rows = following
        reached.append(now)
        came_from.append(origin)
    return reached, came_from


def _backward(
    costs: Sequence[Mapping[Backend, float]],
    transition_costs: TransitionCosts,
    steps: Mapping[tuple[Backend, Backend], float],
) -> list[dict[Backend, float]]:
    """For each operation and backend: the cheapest path from after it to the end."""
    ahead = [{b: transition_costs.finish_ms.get(b, 0.0) for b in _ordered(costs[-1])}]
    for here, after in zip(reversed(costs[:-1]), reversed(costs[1:]), strict=True):
        rest = {b: after[b] + spent for b, spent in ahead[-1].items()}
        ahead.append({a: min(steps[a, b] + way for b, way in rest.items()) for a in _ordered(here)})
    ahead.reverse()
    return ahead
