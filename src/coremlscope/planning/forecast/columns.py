"""Converts placed functions to the columns of a plan over an op table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

from coremlscope.devices import UNITS, ComputeUnit, ComputeUnits, Device
from coremlscope.planning.patterns.verdict import Verdict
from coremlscope.planning.placement.backend import BACKENDS, UNIT_OF, Backend
from coremlscope.planning.placement.place import Choice, PlacedFunction, PlacedOp
from coremlscope.planning.placement.search import TransitionCosts
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import (
    FunctionCost,
    InsertedOp,
    OtherPlan,
    Plan,
    Reason,
    SettingPlan,
    Transitions,
)

Item = TypeVar("Item", bound=Hashable)

_SUPPORT = {"yes": 1, "no": 0, "unknown": -1}
_BACKEND_INDEX = {backend: index for index, backend in enumerate(BACKENDS)}


def tabulate(
    ops: OpTable,
    device: Device,
    functions: Mapping[str, PlacedFunction],
    settings: Sequence[ComputeUnits],
    cost_model: str,
    notes: Sequence[str] = (),
    transition_costs: TransitionCosts | None = None,
) -> Plan:
    """Converts placed functions to a plan.

    Args:
        ops: All operations.
        device: The device for which they were placed.
        functions: By their names in the plan.
        settings: The settings that were planned, the requested one first.
        cost_model: Where the rates behind the costs come from.
        notes: Further remarks.
        transition_costs: What paths cost besides operations; None if that is not known.
    """
    placed = {op.id: op for function in functions.values() for op in function.ops}
    inserted = _inserted(ops, functions)
    columns = [placed.get(id_) for id_ in (*ops.id, *(op.id for op in inserted))]
    reasons: _Distinct[Reason] = _Distinct()
    bases: _Distinct[str] = _Distinct()
    cost_basis: dict[str, tuple[int, ...]] = {
        backend: tuple(_basis(op, backend, bases) for op in columns) for backend in BACKENDS
    }
    why, advice, doubts = (
        tuple(tuple(reasons.index(r) for v in _verdicts(op) for r in of(v)) for op in columns)
        for of in (attrgetter("reasons"), attrgetter("advice"), attrgetter("doubts"))
    )
    return Plan(
        device=device.name,
        chip=device.chip.id,
        os=str(device.os),
        cost_model=cost_model,
        notes=tuple(notes),
        backends={backend: UNIT_OF[backend] for backend in BACKENDS},
        inserted=inserted,
        supported={unit: tuple(_support(op, unit) for op in columns) for unit in UNITS},
        cost_ms={backend: tuple(_cost(op, backend) for op in columns) for backend in BACKENDS},
        cost_basis=cost_basis,
        bases=tuple(bases.found),
        transitions=None if transition_costs is None else _transitions(transition_costs),
        reasons=tuple(reasons.found),
        why=why,
        advice=advice,
        doubts=doubts if any(doubts) else (),
        settings=tuple(_setting(setting, functions, columns) for setting in settings),
    )


def _transitions(known: TransitionCosts) -> Transitions:
    return Transitions(
        {str(backend): ms for backend, ms in known.launch_ms.items()},
        known.switch_ms,
        {str(backend): ms for backend, ms in known.finish_ms.items()},
    )


def _verdicts(op: PlacedOp | None) -> Iterable[Verdict]:
    return () if op is None else op.verdicts.values()


def _inserted(ops: OpTable, functions: Mapping[str, PlacedFunction]) -> tuple[InsertedOp, ...]:
    """Returns the operations that Core ML inserts, with functions in the order of the op table."""
    rows = {id_: index for index, id_ in enumerate(ops.id)}
    ends: dict[str, int] = {}
    for name, function in functions.items():
        places = [rows[op.id] for op in function.ops if op.id in rows]
        ends[name] = max(places, default=len(rows) - 1) + 1
    found: list[InsertedOp] = []
    for name, function in sorted(functions.items(), key=lambda item: ends[item[0]]):
        before = ends[name]
        listed = []
        # Iterate backwards: an inserted operation precedes the next one in the table.
        for op in reversed(function.ops):
            if op.inserted:
                listed.append(
                    InsertedOp(
                        id=op.id,
                        type=op.type,
                        function=name,
                        outputs=op.types,
                        output_names=op.outputs,
                        before=before,
                    )
                )
            else:
                before = rows.get(op.id, before)
        found += reversed(listed)
    return tuple(found)


def _setting(
    setting: ComputeUnits, functions: Mapping[str, PlacedFunction], columns: Sequence[PlacedOp | None]
) -> SettingPlan:
    choices = [None if op is None else op.choices[setting] for op in columns]
    return SettingPlan(
        compute_units=setting,
        functions={
            name: FunctionCost(function.total_ms[setting], function.switches(setting))
            for name, function in functions.items()
        },
        backend=tuple(_BACKEND_INDEX[c.backend] if c and c.backend else -1 for c in choices),
        detour_ms=_by_unit([c.detour_ms if c else {} for c in choices]),
        alternatives=_by_unit([c.alternatives if c else {} for c in choices]),
        other_plan=_other_plan(choices),
    )


#: Plans that differ in a smaller part of the operations are shown by operation alone.
_ANOTHER = 0.05


def _other_plan(choices: Sequence[Choice | None]) -> OtherPlan | None:
    """Returns the plan that is too close to call, without its estimate; None if there is none."""
    pairs = [(one.unit, one.rival or one.unit) for one in choices if one is not None]
    counts = Counter(other for _, other in pairs if other is not None)
    moved = sum(mine != other for mine, other in pairs)
    if moved < _ANOTHER * len(pairs) or not moved:
        return None
    return OtherPlan(units={unit: counts[unit] for unit in UNITS if unit in counts}, moved=moved)


def _by_unit(known: Sequence[Mapping[ComputeUnit, Item]]) -> dict[ComputeUnit, tuple[Item | None, ...]]:
    """Returns a column for each unit of which anything is known."""
    units = set().union(*known)
    return {unit: tuple(one.get(unit) for one in known) for unit in UNITS if unit in units}


def _support(op: PlacedOp | None, unit: ComputeUnit) -> int | None:
    return None if op is None else _SUPPORT[op.supported(unit)]


def _basis(op: PlacedOp | None, backend: Backend, bases: _Distinct[str]) -> int:
    return -1 if op is None or backend not in op.costs else bases.index(op.costs[backend].basis)


def _cost(op: PlacedOp | None, backend: Backend) -> float | None:
    cost = None if op is None else op.costs.get(backend)
    return None if cost is None else cost.ms


class _Distinct(Generic[Item]):
    """Distinct items with their indices."""

    def __init__(self) -> None:
        self.found: list[Item] = []
        self._places: dict[Item, int] = {}

    def index(self, item: Item) -> int:
        """Returns the index of an item, and adds the item if it is new."""
        if item not in self._places:
            self._places[item] = len(self.found)
            self.found.append(item)
        return self._places[item]
