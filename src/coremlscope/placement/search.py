"""The cheapest way through a list of operations: which backend runs each, by what Core ML says they cost.

Core ML asks every backend whether it runs an operation and for how long, and takes the shortest path through
the list in order. Entering the Neural Engine or the GPU costs a launch, changing the backend costs a switch,
and ending on the Neural Engine costs once more. All of it was read off published plans: these costs reproduce
440 of 482 exactly, and 41 more but for ties.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coremlscope.placement.backend import BACKENDS, Backend

__all__ = ["Route", "Tolls", "search"]

#: Costs are summed in nanoseconds: the ties of published plans come out as its rounding decides them.
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Tolls:
    """What a path costs besides its operations, in milliseconds.

    Attributes:
        launch_ms: For entering a backend.
        switch_ms: For every change of backend.
        finish_ms: For ending on a backend.
    """

    launch_ms: Mapping[Backend, float] = field(default_factory=dict)
    switch_ms: float = 0.0
    finish_ms: Mapping[Backend, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """The cheapest path.

    Attributes:
        backends: The backend of each operation.
        total_ms: What the whole path costs, tolls included.
        best_ms: For each operation, by backend: what the cheapest path costs that runs it there. Its smallest
            value is `total_ms`; the difference of two says how much one choice costs.
    """

    backends: tuple[Backend, ...]
    total_ms: float
    best_ms: tuple[Mapping[Backend, float], ...]


def search(costs: Sequence[Mapping[Backend, float]], tolls: Tolls) -> Route:
    """The cheapest path through a list of operations.

    Args:
        costs: For each operation, what it costs on every backend that may run it, in milliseconds.
        tolls: What else a path costs.

    Raises:
        ValueError: An operation has no backend.
    """
    if not costs:
        return Route((), 0.0, ())
    steps = _steps(tolls)
    forward, came_from = _forward(costs, tolls, steps)
    backward = _backward(costs, tolls, steps)
    last = _ordered(costs[-1])[0]
    total = math.inf
    for backend in _ordered(costs[-1]):
        end = forward[-1][backend] + _ns(tolls.finish_ms.get(backend, 0.0))
        if end <= total:
            total, last = end, backend
    path = [last]
    for before in reversed(came_from):
        path.append(before[path[-1]])
    best = tuple(
        {backend: (ahead[backend] + behind[backend]) / _NS_PER_MS for backend in ahead}
        for ahead, behind in zip(forward, backward, strict=True)
    )
    return Route(tuple(reversed(path)), total / _NS_PER_MS, best)


def _ns(ms: float) -> float:
    return ms * _NS_PER_MS


def _ordered(costs: Mapping[Backend, float]) -> list[Backend]:
    """The backends in the order in which a later one wins a tie."""
    ordered = [backend for backend in BACKENDS if backend in costs]
    if not ordered:
        raise ValueError("an operation without a backend has no place in a path")
    return ordered


def _steps(tolls: Tolls) -> dict[tuple[Backend, Backend], float]:
    return {
        (a, b): 0.0 if a == b else _ns(tolls.switch_ms) + _ns(tolls.launch_ms.get(b, 0.0))
        for a in BACKENDS
        for b in BACKENDS
    }


def _forward(
    costs: Sequence[Mapping[Backend, float]], tolls: Tolls, steps: Mapping[tuple[Backend, Backend], float]
) -> tuple[list[dict[Backend, float]], list[dict[Backend, Backend]]]:
    """For each operation and backend: the cheapest way up to and with it, and where that came from."""
    first = {b: _ns(tolls.launch_ms.get(b, 0.0)) + _ns(costs[0][b]) for b in _ordered(costs[0])}
    reached = [first]
    came_from = []
    for cost in costs[1:]:
        before = reached[-1]
        now: dict[Backend, float] = {}
        origin: dict[Backend, Backend] = {}
        for b in _ordered(cost):
            for a, spent in before.items():
                way = spent + steps[a, b] + _ns(cost[b])
                if b not in now or way <= now[b]:
                    now[b], origin[b] = way, a
        reached.append(now)
        came_from.append(origin)
    return reached, came_from


def _backward(
    costs: Sequence[Mapping[Backend, float]], tolls: Tolls, steps: Mapping[tuple[Backend, Backend], float]
) -> list[dict[Backend, float]]:
    """For each operation and backend: the cheapest way from after it to the end."""
    ahead = [{b: _ns(tolls.finish_ms.get(b, 0.0)) for b in _ordered(costs[-1])}]
    for here, after in zip(reversed(costs[:-1]), reversed(costs[1:]), strict=True):
        rest = ahead[-1]
        ahead.append({a: min(steps[a, b] + _ns(after[b]) + rest[b] for b in rest) for a in _ordered(here)})
    ahead.reverse()
    return ahead
