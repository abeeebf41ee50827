"""Draws rates within their intervals, plans five networks with each draw, and compares with undecided units.

An operation is undecided in a plan if it runs on another unit at costs that lean towards the ends of their
intervals. That is quick, but does not say how likely the other unit is. Here the logarithms of rates are
normal around the rate in use, nine in ten within the interval, as published rates are that were kept aside;
those of one class on one unit are drawn once for the whole network. Errors of two classes on a unit have the
correlations that `benchmarks.plan rates` finds. Costs of which nothing is published are drawn evenly between
the logarithms of their ends.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.plan.wholes import network_names, read_network
from coremlscope.cost.planned.rates import rate_table
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, Device, find_device
from coremlscope.forecast.planner import place_functions
from coremlscope.placement.backend import UNIT_OF, Backend, PlannedCost
from coremlscope.placement.place import PlacedOp
from coremlscope.placement.replan import replan
from coremlscope.placement.search import TransitionCosts, lean

__all__ = ["Drawn", "draw_plans", "report"]

_CHIPS = ("m2-max", "m4-max", "m5", "m5-pro", "m5-max")
_DRAWS, _SEED = 300, 14
#: Standard deviations from the middle to the ends of an interval that holds nine in ten.
_NINE_IN_TEN = 1.645
_FEW, _MANY = 0.1, 0.2
#: How much of the variance is common to the classes of convolutions on a unit, and to all others.
_CONVOLUTIONS: Mapping[ComputeUnit, float] = {NEURAL_ENGINE: 0.44, GPU: 0.24, CPU: 0.0}
_OTHERS: Mapping[ComputeUnit, float] = {NEURAL_ENGINE: 0.15, GPU: 0.15, CPU: 0.45}


@dataclass(frozen=True, slots=True)
class Drawn:
    """An operation in the plans with drawn rates.

    Attributes:
        elsewhere: The share of them in which it runs on another unit than in the plan.
        is_undecided: Whether the plan calls it undecided because of its rates.
    """

    elsewhere: float
    is_undecided: bool


def draw_plans(device: Device) -> list[Drawn]:
    """Returns all operations of the networks on a device, with all units."""
    found = []
    for name in network_names():
        (function,) = place_functions(read_network(name), device, ["all"], with_advice=False).values()
        found += _draw([op for op in function.ops if op.costs], device)
    return found


def _draw(ops: Sequence[PlacedOp], device: Device) -> list[Drawn]:
    generator = random.Random(_SEED)
    costs = [{backend: cost.ms for backend, cost in op.costs.items()} for op in ops]
    changes = [_costs(ops, generator) for _ in range(_DRAWS)]
    backends = [op.choices["all"].backend or "bnns" for op in ops]
    transitions = rate_table(device).transition_costs
    plans = [
        plan
        for changed in changes
        for plan in replan(costs, [changed], backends, _launches(transitions, generator))
    ]
    return [
        Drawn(
            sum(UNIT_OF[path[index]] != UNIT_OF[backends[index]] for path, _ in plans) / len(plans),
            "rates" in op.choices["all"].alternatives.values(),
        )
        for index, op in enumerate(ops)
    ]


def _costs(ops: Sequence[PlacedOp], generator: random.Random) -> dict[int, Mapping[Backend, float]]:
    """Costs of all operations with one draw of every rate."""
    normal: dict[tuple[str, ComputeUnit], float] = {}
    even: dict[tuple[str, ComputeUnit], float] = {}

    def draw(name: str, unit: ComputeUnit) -> float:
        if (name, unit) not in normal:
            normal[name, unit] = generator.gauss()
        return normal[name, unit]

    def drawn(op: PlacedOp, backend: Backend, cost: PlannedCost) -> float:
        if cost.is_open:
            share = even.setdefault((op.type, UNIT_OF[backend]), generator.random())
            return lean(cost.low, cost.high, share)
        if cost.rate is None or cost.rate.is_common or cost.rate.low == cost.rate.high:
            return cost.ms
        unit, name = UNIT_OF[backend], cost.rate.name
        family = "convolution" if name.startswith("convolution") else ""
        common = (_CONVOLUTIONS if family else _OTHERS)[unit]
        normal_of_rate = math.sqrt(common) * draw(family, unit) + math.sqrt(1 - common) * draw(name, unit)
        deviation = math.log(cost.rate.high / cost.rate.low) / 2 / _NINE_IN_TEN
        return cost.ms * math.exp(normal_of_rate * deviation)

    return {
        index: {backend: drawn(op, backend, cost) for backend, cost in op.costs.items()}
        for index, op in enumerate(ops)
    }


def _launches(costs: TransitionCosts, generator: random.Random) -> TransitionCosts:
    """Transition costs with one draw of every launch."""
    launch = dict(costs.launch_ms)
    for backend, bounds in costs.launch_bounds.items():
        normal = generator.gauss() / _NINE_IN_TEN
        launch[backend] = lean(launch[backend], bounds.high if normal > 0 else bounds.low, abs(normal))
    return TransitionCosts(launch, costs.switch_ms, costs.finish_ms)


def report() -> str:
    """Returns the comparison by chip."""
    lines = [f"Operations of five networks on other units in {_DRAWS} plans with drawn rates"]
    for chip in _CHIPS:
        ops = draw_plans(find_device(chip))
        few, many = (sum(op.elsewhere > share for op in ops) / len(ops) for share in (_FEW, _MANY))
        undecided = [op.elsewhere for op in ops if op.is_undecided]
        decided = [op.elsewhere for op in ops if not op.is_undecided]
        lines.append(
            f"  {chip:7} in more than 10 %: {few:4.0%}, in more than 20 %: {many:4.0%};"
            f" undecided {len(undecided) / len(ops):4.0%};"
            f" mean of these {statistics.mean(undecided or [0]):4.0%},"
            f" of decided ones {statistics.mean(decided or [0]):4.0%}"
        )
    return "\n".join(lines) + "\n"
