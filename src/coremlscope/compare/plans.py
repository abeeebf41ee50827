"""What differs between plans and estimates of two models, devices or settings: nothing of it is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coremlscope.compare.change import Change, change_of_figures
from coremlscope.devices import ComputeUnit
from coremlscope.figures import Figure
from coremlscope.results.placements import PlacedOp, placed_ops
from coremlscope.results.plan import DevicePlan, SettingPlan
from coremlscope.results.profile import OpTable

__all__ = ["OpPlacement", "Placement", "PlacementChange", "TypeCost", "compare_placements", "placements"]


@dataclass(frozen=True, slots=True)
class Placement:
    """A model's plan for one device under one setting.

    Attributes:
        path: Where the model was read from.
        ops: Every operation.
        plan: The plan for the device.
        setting: Its part for the setting.
    """

    path: str
    ops: OpTable
    plan: DevicePlan
    setting: SettingPlan

    @property
    def label(self) -> str:
        """`M1, cpu_and_ne`."""
        return f"{self.plan.device}, {self.setting.compute_units}"


@dataclass(frozen=True, slots=True)
class OpPlacement:
    """An operation that goes to another unit, or has another planned cost.

    Attributes:
        type: Apple's name; of the base's operation where both have one.
        name: The author's name, likewise.
        before: Its id in the base; empty where it was added.
        after: Its id in the other; empty where it was removed.
        unit_before: Its unit in the base; None where none is known to run it.
        unit_after: Its unit in the other.
        planned: Seconds.
    """

    type: str
    name: str
    before: str
    after: str
    unit_before: ComputeUnit | None
    unit_after: ComputeUnit | None
    planned: Change


@dataclass(frozen=True, slots=True)
class TypeCost:
    """The planned cost of all operations of one type, in seconds."""

    type: str
    before: int
    after: int
    planned: Change


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """What differs between two plans.

    Attributes:
        before: The device and the setting of the base's plan.
        after: Those of the other's.
        latency: The estimates, in seconds; None where the kind of model is not estimated.
        planned: The planned cost of the whole, launches and switches included, in seconds.
        switches: How often each path changes its unit.
        units: For each unit: how many operations of either it runs.
        types: By type of operation, largest difference first.
        ops: Operations that differ, largest difference first.
        moved: How many operations that correspond go to another unit.
    """

    before: str
    after: str
    latency: Change | None
    planned: Change
    switches: tuple[int, int]
    units: Mapping[ComputeUnit, tuple[int, int]]
    types: tuple[TypeCost, ...]
    ops: tuple[OpPlacement, ...]
    moved: int


def placements(
    path: str, ops: OpTable, plans: Sequence[DevicePlan], settings: Collection[str] = ()
) -> list[Placement]:
    """Every plan under every setting, or under some settings only.

    Args:
        path: Where the model was read from.
        ops: Every operation.
        plans: The plans beside it.
        settings: Those that are wanted; all where this is empty.
    """
    return [
        Placement(path, ops, plan, setting)
        for plan in plans
        for setting in plan.settings
        if not settings or setting.compute_units in settings
    ]


def compare_placements(before: Placement, after: Placement, matches: Mapping[int, int]) -> PlacementChange:
    """Compares two plans.

    Args:
        before: The base.
        after: The other.
        matches: Which operation is which: rows of the op tables.
    """
    sides = [{op.id: op for op in placed_ops(side.ops, side.plan, side.setting)} for side in (before, after)]
    pairs = _pairs(before, after, sides, matches)
    ops = [_placed(a, b) for a, b in pairs if _differs(a, b)]
    counts = [Counter(op.unit for op in side.values()) for side in sides]
    units = [unit for unit in before.plan.units if counts[0][unit] or counts[1][unit]]
    types = _types(*(list(side.values()) for side in sides))
    return PlacementChange(
        before.label,
        after.label,
        _latency(before, after),
        change_of_figures(*(_planned(side.setting.total_ms) for side in (before, after))),
        (before.setting.switches, after.setting.switches),
        {unit: (counts[0][unit], counts[1][unit]) for unit in units},
        tuple(sorted(types, key=lambda row: -_size(row.planned))),
        tuple(sorted(ops, key=lambda row: -_size(row.planned))),
        sum(a is not None and b is not None and a.unit != b.unit for a, b in pairs),
    )


def _latency(before: Placement, after: Placement) -> Change | None:
    first, second = before.setting.estimate, after.setting.estimate
    if first is None or second is None:
        return None
    return change_of_figures(first.latency, second.latency)


def _planned(ms: float) -> Figure:
    return Figure(ms / 1e3, ms / 1e3, ms / 1e3, "planned")


def _pairs(
    before: Placement,
    after: Placement,
    sides: Sequence[Mapping[str, PlacedOp]],
    matches: Mapping[int, int],
) -> list[tuple[PlacedOp | None, PlacedOp | None]]:
    """Operations that correspond; what Core ML inserts by its id."""
    ids = before.ops.id, after.ops.id
    partner = {ids[0][i]: ids[1][j] for i, j in matches.items()}
    own = [{op.id for op in side.plan.inserted} for side in (before, after)]
    partner.update({id_: id_ for id_ in own[0] & own[1]})
    taken = set(partner.values())
    pairs: list[tuple[PlacedOp | None, PlacedOp | None]] = [
        (op, sides[1].get(partner[id_]) if id_ in partner else None) for id_, op in sides[0].items()
    ]
    return pairs + [(None, op) for id_, op in sides[1].items() if id_ not in taken]


def _differs(before: PlacedOp | None, after: PlacedOp | None) -> bool:
    if before is None or after is None:
        return True
    return (before.unit, before.planned_ms) != (after.unit, after.planned_ms)


def _placed(before: PlacedOp | None, after: PlacedOp | None) -> OpPlacement:
    first = before or after
    assert first is not None
    there, here = (None if op is None else op.planned_ms for op in (before, after))
    if there is None or here is None:
        seconds = (None if ms is None else ms / 1e3 for ms in (there, here))
        planned = Change.apart(next(seconds), next(seconds), "planned")
    else:
        planned = change_of_figures(_planned(there), _planned(here))
    return OpPlacement(
        first.type, first.name, before.id if before else "", after.id if after else "",
        before.unit if before else None, after.unit if after else None, planned,
    )  # fmt: skip


def _types(before: Sequence[PlacedOp], after: Sequence[PlacedOp]) -> Iterator[TypeCost]:
    for name in dict.fromkeys(op.type for op in (*before, *after)):
        sides = [[op for op in ops if op.type == name] for ops in (before, after)]
        sums = [_planned(sum(op.planned_ms or 0.0 for op in ops)) for ops in sides]
        yield TypeCost(name, len(sides[0]), len(sides[1]), change_of_figures(*sums))


def _size(change: Change) -> float:
    return abs((change.after or 0.0) - (change.before or 0.0))
