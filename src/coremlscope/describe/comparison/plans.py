"""Compares plans and estimates of two models, devices or settings, without measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.describe.comparison.change import Change, change_of_pair, change_of_plans
from coremlscope.devices import ComputeUnit
from coremlscope.results.answer import PairVerdict
from coremlscope.results.calibration import OwnCalibration
from coremlscope.results.estimate import Estimate
from coremlscope.results.plan import Choice, PlannedOp, PlanView
from coremlscope.results.profile import Profile

#: An operation of a plan, and where it goes under the setting that is compared.
_Placed = tuple[PlannedOp, Choice]


class PlannedOpChange(msgspec.Struct, frozen=True, kw_only=True):
    """An operation whose unit or planned cost changes.

    Attributes:
        type: Apple's name of the operation in the base, or else in the other plan.
        name: The author's name in the base, or else in the other plan.
        before: Its id in the base; empty if it was added.
        after: Its id in the other plan; empty if it was removed.
        unit_before: Its unit in the base; None if no unit is known to support it.
        unit_after: Its unit in the other plan.
        planned: Its planned cost, in seconds.
    """

    type: str
    name: str
    before: str
    after: str
    unit_before: ComputeUnit | None
    unit_after: ComputeUnit | None
    planned: Change


class TypeCost(msgspec.Struct, frozen=True):
    """The planned cost of all operations of one type.

    Attributes:
        type: Apple's name.
        before: Number of operations in the base.
        after: Number of operations in the other plan.
        planned: Their cost, in seconds; None on a side without such operations.
    """

    type: str
    before: int
    after: int
    planned: Change


class PlanChange(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between two plans.

    Attributes:
        before: The device and the setting of the base's plan.
        after: The device and the setting of the other plan.
        latency: The estimates, in seconds; None for kinds of models that cannot be estimated.
        own: Which of the user's own measurements the estimates of the base and of the other use; None where
            it is estimated from published latencies alone.
        inserted: Number of operations in `units` that Core ML adds to those of the file, such as copies.
        planned: The total planned cost, including launches and switches, in seconds.
        switches: Number of changes of the unit along each path.
        units: Number of operations on each unit in both plans.
        types: Costs by type of operation, largest difference first; empty if either plan has no costs.
        ops: Operations that differ, largest difference first.
        moved: Number of matched operations that change their unit.
    """

    before: str
    after: str
    latency: Change | None
    planned: Change
    switches: tuple[int, int]
    units: Mapping[ComputeUnit, tuple[int, int]]
    types: tuple[TypeCost, ...]
    ops: tuple[PlannedOpChange, ...]
    moved: int
    own: tuple[OwnCalibration | None, OwnCalibration | None] = (None, None)
    inserted: tuple[int, int] = (0, 0)


def plan_views(profile: Profile, settings: Collection[str] = ()) -> list[PlanView]:
    """Returns the plans of a profile under every setting, or under some settings.

    Args:
        profile: The profile.
        settings: The settings; all if empty.
    """
    return [
        plan.view(setting)
        for plan in profile.plans
        for setting in plan.settings
        if not settings or setting.compute_units in settings
    ]


def label_of(view: PlanView, *, with_system: bool = False) -> str:
    """Returns the label of a plan: `M1, cpu_and_ne`; with the planner if that is Core ML itself."""
    planner = "" if view.plan.planner == "rules" else f", planned by {view.plan.planner}"
    system = f", {view.plan.os}" if with_system else ""
    return f"{view.plan.device}{system}, {view.compute_units}{planner}"


def compare_views(
    before: PlanView,
    after: PlanView,
    partners: Mapping[str, str],
    estimates: tuple[Estimate | None, Estimate | None] = (None, None),
    pair: PairVerdict | None = None,
) -> PlanChange:
    """Compares two plans.

    Args:
        before: The base.
        after: The other.
        partners: The matching of operations: ids of the other plan by ids of the base.
        estimates: The estimates for the same devices and settings.
        pair: What the answers say of the two; None where estimates are not compared.
    """
    sides = [
        {op.id: (op, op.choices[view.compute_units]) for op in view.plan.ops} for view in (before, after)
    ]
    pairs = _pairs(sides, partners)
    ops = [_change(a, b) for a, b in pairs if _differs(a, b)]
    counts = [Counter(choice.unit for _, choice in side.values()) for side in sides]
    units = [unit for unit in before.plan.units if counts[0][unit] or counts[1][unit]]
    totals = [view.plan.total_ms(view.setting) for view in (before, after)]
    types = [] if None in totals else _types(*(list(side.values()) for side in sides))
    first, second = (sum(op.inserted for op, _ in side.values()) for side in sides)
    with_system = before.plan.device == after.plan.device and before.plan.os != after.plan.os
    return PlanChange(
        before=label_of(before, with_system=with_system),
        after=label_of(after, with_system=with_system),
        latency=change_of_pair(pair),
        planned=_change_of_costs(*totals),
        switches=(before.setting.switches, after.setting.switches),
        units={unit: (counts[0][unit], counts[1][unit]) for unit in units},
        types=tuple(sorted(types, key=lambda row: -_size(row.planned))),
        ops=tuple(sorted(ops, key=lambda row: -_size(row.planned))),
        moved=sum(a is not None and b is not None and a[1].unit != b[1].unit for a, b in pairs),
        own=(_own(estimates[0]), _own(estimates[1])),
        inserted=(first, second),
    )


def _own(estimate: Estimate | None) -> OwnCalibration | None:
    return None if estimate is None else estimate.own


def _change_of_costs(before_ms: float | None, after_ms: float | None) -> Change:
    if before_ms is None or after_ms is None:
        seconds = [None if ms is None else ms / 1e3 for ms in (before_ms, after_ms)]
        return Change.apart(seconds[0], seconds[1], "planned")
    return change_of_plans(_planned(before_ms), _planned(after_ms))


def _planned(ms: float) -> Figure:
    return Figure(ms / 1e3, ms / 1e3, ms / 1e3, "planned")


def _pairs(
    sides: Sequence[Mapping[str, _Placed]], partners: Mapping[str, str]
) -> list[tuple[_Placed | None, _Placed | None]]:
    """Yields matched operations; operations that Core ML inserts are matched by id."""
    own = [{op.id for op, _ in side.values() if op.inserted} for side in sides]
    partner = {**partners, **{id_: id_ for id_ in own[0] & own[1]}}
    taken = set(partner.values())
    pairs: list[tuple[_Placed | None, _Placed | None]] = [
        (placed, sides[1].get(partner[id_]) if id_ in partner else None) for id_, placed in sides[0].items()
    ]
    return pairs + [(None, placed) for id_, placed in sides[1].items() if id_ not in taken]


def _differs(before: _Placed | None, after: _Placed | None) -> bool:
    if before is None or after is None:
        return True
    here, there = before[1], after[1]
    if here.unit != there.unit or here.planned_ms is None or there.planned_ms is None:
        return (here.unit, here.planned_ms) != (there.unit, there.planned_ms)
    return change_of_plans(_planned(here.planned_ms), _planned(there.planned_ms)).verdict != "no change"


def _change(before: _Placed | None, after: _Placed | None) -> PlannedOpChange:
    first = before or after
    assert first is not None
    planned = _change_of_costs(*(None if one is None else one[1].planned_ms for one in (before, after)))
    return PlannedOpChange(
        type=first[0].type,
        name=first[0].name,
        before=before[0].id if before else "",
        after=after[0].id if after else "",
        unit_before=before[1].unit if before else None,
        unit_after=after[1].unit if after else None,
        planned=planned,
    )


def _types(before: Sequence[_Placed], after: Sequence[_Placed]) -> Iterator[TypeCost]:
    for name in dict.fromkeys(op.type for op, _ in (*before, *after)):
        sides = [[choice for op, choice in ops if op.type == name] for ops in (before, after)]
        sums = [_sum_ms(choices) for choices in sides]
        yield TypeCost(name, len(sides[0]), len(sides[1]), _change_of_costs(*sums))


def _sum_ms(choices: Sequence[Choice]) -> float | None:
    """Returns the planned cost of operations; None if none of them has one."""
    costs = [choice.planned_ms for choice in choices if choice.planned_ms is not None]
    return sum(costs) if costs else None


def _size(change: Change) -> float:
    return abs((change.after or 0.0) - (change.before or 0.0))
