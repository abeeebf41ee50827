"""Checks how often plans say that operations run elsewhere with other rates within their intervals.

First against 300 plans of five networks with draws of their own: independent ones from the same assumptions
(see `coremlscope.planning.placement.drawn`), planned by `replan`. Then against published plans that run a
network on one unit, on chips whose rates are transferred from others: of the operations that go to a unit
in a share of draws, how many are published there. These are few networks: their operations move together.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.plan import encoders, wholes
from benchmarks.plan.wholes import network_names, read_network
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, ComputeUnit, Device, find_device
from coremlscope.planning.cost.planned.rates import rate_table
from coremlscope.planning.forecast.planner import place_functions
from coremlscope.planning.placement.backend import UNIT_OF, Backend, PlannedCost
from coremlscope.planning.placement.drawn import UNDECIDED_SHARE
from coremlscope.planning.placement.place import Choice, PlacedOp
from coremlscope.planning.placement.replan import replan
from coremlscope.planning.placement.search import TransitionCosts

__all__ = ["Drawn", "draw_plans", "report"]

_CHIPS = ("m2-max", "m4-max", "m5", "m5-pro", "m5-max")
_DRAWS, _SEED = 300, 14
#: The conversion of the results: it runs where they are computed.
_FOLLOWS = "tensor_to_tensor_buffer"
#: Standard deviations from the middle to the ends of an interval that holds nine in ten.
_NINE_IN_TEN = 1.645
#: How much of the variance is common to the classes of convolutions on a unit, and to all others.
_CONVOLUTIONS: Mapping[ComputeUnit, float] = {NEURAL_ENGINE: 0.44, GPU: 0.24, CPU: 0.0}
_OTHERS: Mapping[ComputeUnit, float] = {NEURAL_ENGINE: 0.15, GPU: 0.15, CPU: 0.45}
#: The ends of the ranges of shares.
_ENDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class Drawn:
    """An operation in the plans with drawn rates.

    Attributes:
        elsewhere: The share of them in which it runs on another unit than in the plan.
        stated: The share that the plan states.
    """

    elsewhere: float
    stated: float


def draw_plans(device: Device) -> list[Drawn]:
    """Returns all operations of the networks on a device, with all units."""
    found = []
    for name in network_names():
        (function,) = place_functions(read_network(name), device, ["all"], with_advice=False).values()
        found += _draw([op for op in function.ops if op.costs and op.type != _FOLLOWS], device)
    return found


def _draw(ops: Sequence[PlacedOp], device: Device) -> list[Drawn]:
    generator = random.Random(_SEED)
    costs = [{backend: cost.ms for backend, cost in op.costs.items()} for op in ops]
    backends = [op.choices["all"].backend or "bnns" for op in ops]
    transitions = rate_table(device).transition_costs
    plans = [
        plan
        for _ in range(_DRAWS)
        for plan in replan(costs, [_costs(ops, generator)], backends, _launches(transitions, generator))
    ]
    return [
        Drawn(
            sum(UNIT_OF[path[index]] != UNIT_OF[backends[index]] for path, _ in plans) / len(plans),
            sum(op.choices["all"].draw_share.values()),
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
        unit = UNIT_OF[backend]
        if cost.is_open:
            share = even.setdefault((op.type, unit), generator.random())
            return cost.low * math.pow(cost.high / cost.low, share)
        if cost.low == cost.high:
            return cost.ms
        name = op.type if cost.rate is None else cost.rate.name
        family = "convolution" if name.startswith("convolution") else ""
        common = (_CONVOLUTIONS if family else _OTHERS)[unit]
        error = math.sqrt(common) * draw(family, unit) + math.sqrt(1 - common) * draw(name, unit)
        return _drawn(cost.ms, cost.low, cost.high, error)

    return {
        index: {backend: drawn(op, backend, cost) for backend, cost in op.costs.items()}
        for index, op in enumerate(ops)
    }


def _drawn(cost: float, low: float, high: float, error: float) -> float:
    """A cost with an error in standard deviations; nine in ten lie within the interval."""
    end = high if error > 0 else low
    return cost * math.pow(end / cost, abs(error) / _NINE_IN_TEN)


def _launches(costs: TransitionCosts, generator: random.Random) -> TransitionCosts:
    """Transition costs with one draw of every launch."""
    launch = {
        backend: _drawn(
            ms, costs.launch_bounds[backend].low, costs.launch_bounds[backend].high, generator.gauss()
        )
        for backend, ms in costs.launch_ms.items()
    }
    return TransitionCosts(launch, costs.switch_ms, costs.finish_ms)


def report() -> str:
    """Returns both comparisons."""
    return "\n".join([*_of_other_draws(), "", *_of_published_plans()]) + "\n"


def _of_other_draws() -> Iterator[str]:
    yield f"Operations of five networks on other units in {_DRAWS} plans with other draws"
    for chip in _CHIPS:
        ops = draw_plans(find_device(chip))
        many = sum(op.elsewhere >= UNDECIDED_SHARE for op in ops) / len(ops)
        undecided = [op.elsewhere for op in ops if op.stated >= UNDECIDED_SHARE]
        decided = [op.elsewhere for op in ops if op.stated < UNDECIDED_SHARE]
        errors = [abs(op.elsewhere - op.stated) for op in ops]
        yield (
            f"  {chip:7} in at least {UNDECIDED_SHARE:.0%}: {many:4.0%}; undecided"
            f" {len(undecided) / len(ops):4.0%}; mean of these {statistics.mean(undecided or [0]):4.0%}, of"
            f" decided ones {statistics.mean(decided or [0]):4.0%}; stated share differs by"
            f" {statistics.mean(errors):.1%} on average, by {max(errors):.0%} at most"
        )


def _of_published_plans() -> Iterator[str]:
    m4_max, m4_pro = find_device("m4-max", "26"), find_device("m4-pro", "27")
    yield "Operations by the share of drawn plans that run them on a unit, and those published there"
    yield from _calibration(
        "M4 Max, its rates from other chips", encoders.choices_on_one_unit(wholes.without(m4_max))
    )
    yield from _calibration(
        "M4 Pro, its rates from other chips", wholes.choices_on_one_unit(wholes.without(m4_pro))
    )
    yield from _calibration("M5 Max", wholes.choices_on_m5_max())


def _calibration(name: str, choices: Iterable[tuple[Choice, ComputeUnit]]) -> Iterator[str]:
    """Yields the number of operations, the mean share and the share that is published there, by range."""
    found: list[tuple[float, bool]] = []
    right = decided = total = 0
    for choice, unit in choices:
        total += 1
        if not choice.alternatives:
            decided += 1
            right += choice.unit == unit
        shares = dict(choice.draw_share)
        if choice.unit is not None and shares:
            shares[choice.unit] = 1 - sum(shares.values())
        found += [(share, there == unit) for there, share in shares.items()]
    yield f"  {name}: {decided / total:.0%} of {total} decided, {right} of {decided} of them as published"
    for low, high in zip((0.0, *_ENDS), (*_ENDS, 1.01), strict=True):
        within = [(share, is_there) for share, is_there in found if low <= share < high]
        if within:
            mean = statistics.mean(share for share, _ in within)
            there = statistics.mean(is_there for _, is_there in within)
            ends = f"{low:4.0%} … {min(high, 1.0):4.0%}"
            yield f"    {ends}: {len(within):6}, mean {mean:4.0%}, published {there:4.0%}"
