"""Makes the plan of a device from its placed functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from coremlscope.devices import UNITS, ComputeUnits, Device
from coremlscope.planning.placement.backend import UNIT_OF
from coremlscope.planning.placement.place import PlacedFunction
from coremlscope.planning.placement.search import TransitionCosts
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import (
    FunctionCost,
    OtherPlan,
    Plan,
    PlannedOp,
    PlannedOps,
    SettingPlan,
    Transitions,
)

#: Plans that differ in a smaller part of the operations are shown by operation alone.
_ANOTHER = 0.05


def make_plan(
    table: OpTable,
    device: Device,
    functions: Mapping[str, PlacedFunction],
    settings: Sequence[ComputeUnits],
    cost_model: str,
    notes: Sequence[str] = (),
    transition_costs: TransitionCosts | None = None,
) -> Plan:
    """Makes a plan of placed functions.

    Args:
        table: All operations.
        device: The device for which they were placed.
        functions: By their names in the plan.
        settings: The settings that were planned, the requested one first.
        cost_model: Where the rates behind the costs come from.
        notes: Further remarks.
        transition_costs: What paths cost besides operations; None if that is not known.
    """
    order = {name: place for place, name in enumerate(table.functions)}
    in_order = sorted(functions.values(), key=lambda one: order.get(one.name, len(order)))
    return Plan(
        device=device.name,
        chip=device.chip.id,
        os=str(device.os),
        cost_model=cost_model,
        notes=tuple(notes),
        backends={str(backend): unit for backend, unit in UNIT_OF.items()},
        ops=PlannedOps(_named_as_in(table, [op for one in in_order for op in one.ops])),
        transitions=None if transition_costs is None else _transitions(transition_costs),
        settings=tuple(_setting(setting, functions) for setting in settings),
    )


def _named_as_in(table: OpTable, ops: Sequence[PlannedOp]) -> Iterator[PlannedOp]:
    """Yields operations with names and types of the file: networks are planned in another form."""
    rows = {id_: row for row, id_ in enumerate(table.id)}
    for op in ops:
        row = rows.get(op.id)
        if row is None:
            yield op
            continue
        told = (table.type[row], table.name[row], table.outputs[row], table.output_names[row])
        if told == (op.type, op.name, op.outputs, op.output_names):
            yield op
        else:
            type_, name, outputs, names = told
            yield replace(op, type=type_, name=name, outputs=outputs, output_names=names)


def _transitions(costs: TransitionCosts) -> Transitions:
    return Transitions(
        {str(backend): ms for backend, ms in costs.launch_ms.items()},
        costs.switch_ms,
        {str(backend): ms for backend, ms in costs.finish_ms.items()},
    )


def _setting(setting: ComputeUnits, functions: Mapping[str, PlacedFunction]) -> SettingPlan:
    return SettingPlan(
        compute_units=setting,
        functions={
            name: FunctionCost(function.total_ms[setting], function.switches(setting))
            for name, function in functions.items()
        },
        other_plan=_other_plan(functions, setting),
    )


def _other_plan(functions: Mapping[str, PlacedFunction], setting: ComputeUnits) -> OtherPlan | None:
    """Returns the plan that is too close to call, without its estimate; None if there is none."""
    pairs = [
        (unit := op.choices[setting].unit, function.rivals.get(setting, {}).get(op.id, unit))
        for function in functions.values()
        for op in function.ops
    ]
    counts = Counter(other for _, other in pairs if other is not None)
    moved = sum(mine != other for mine, other in pairs)
    if moved < _ANOTHER * len(pairs) or not moved:
        return None
    return OtherPlan(units={unit: counts[unit] for unit in UNITS if unit in counts}, moved=moved)
