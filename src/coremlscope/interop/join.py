"""Joins the operations of a file to those of a model, and moves plans to the model's op table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.describe.comparison.alignment import align
from coremlscope.devices.unit import UNITS, ComputeUnit
from coremlscope.interop.listing import UNKNOWN_TYPE, Imported
from coremlscope.planning.patterns.forms import BUFFERS
from coremlscope.results.measurement import Measurement, Status
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Choice, Plan, PlannedOp, PlannedOps, Support

#: Core ML computes these when it compiles; plans do not list them.
_FOLDED = "constexpr_"


class _Rows(msgspec.Struct, frozen=True):
    """Which operation of the file each operation of the model is.

    Attributes:
        of: By row of the model's table the row of the file's.
        by_name: How many were joined by function and name of the first result, or by layer.
        by_order: How many by type, types of results, name and order.
    """

    of: dict[int, int]
    by_name: int
    by_order: int


def join(imported: Imported, ops: OpTable, model: str) -> Imported:
    """Returns the content of a file, over the op table of a model.

    Operations are joined by function and name of the first result, or by layer; what is left by name, type
    and order. Operations of the file that the model lacks become operations that Core ML inserted.

    Args:
        imported: What the file says.
        ops: The model's operations.
        model: The model's name, for messages.

    Raises:
        UsageError: The file lists operations, and none of them is in the model.
    """
    if not len(imported.ops):
        return msgspec.structs.replace(imported, ops=ops)
    rows = _match(imported.ops, ops)
    file, total = imported.origin.file, len(imported.ops)
    joined = len(set(rows.of.values()))
    if not joined:
        raise UsageError(
            f"none of the {total} operations of {file} is in {model}", "name the model that the file is of"
        )
    how = f"{rows.by_name} by name, {rows.by_order} by type and order"
    rest = "; the others are shown as inserted" if joined < total and imported.plans else ""
    # Core ML's own operations on buffers are in no model.
    own = sum(type_ in BUFFERS for type_ in imported.ops.type)
    few = 2 * joined < total - own or (rows.by_order > rows.by_name and 2 * len(rows.of) < len(ops))
    finding = Finding(
        id="joined",
        severity="warning" if few else "info",
        text=f"{joined} of the {total} operations of {file} are in {model} ({how}), which has {len(ops)}"
        + rest,
        hint=f"check that {file} is of this model: most of them have no counterpart" if few else "",
    )
    return msgspec.structs.replace(
        imported,
        ops=ops,
        measurements=tuple(_moved_times(one, ops, rows.of) for one in imported.measurements),
        plans=tuple(_moved(plan, imported.ops, ops, rows.of) for plan in imported.plans),
        findings=(*imported.findings, finding),
    )


def _match(file: OpTable, model: OpTable) -> _Rows:
    functions = _functions(file, model)
    keys: dict[tuple[str, str, str], int] = {}
    layers: dict[str, int] = {}
    for row in range(len(file)):
        names, layer = file.output_names[row], file.layer[row]
        if names:
            keys.setdefault((functions.get(file.function[row], ""), names[0], file.type[row]), row)
        if layer:
            layers.setdefault(layer, row)
    found: dict[int, int] = {}
    for row in range(len(model)):
        names = model.output_names[row]
        own = [(model.function[row], names[0], type_) for type_ in (model.type[row], UNKNOWN_TYPE) if names]
        there = next((keys[key] for key in own if key in keys), layers.get(model.layer[row] or ""))
        if there is not None:
            found[row] = there
    by_name = len(set(found.values()))
    taken = set(found.values())
    left = [row for row in range(len(file)) if row not in taken]
    free = [row for row in range(len(model)) if row not in found]
    pairs = align(_selected(file, left), _selected(model, free))
    found |= {free[there]: left[here] for here, there in pairs.items()}
    return _Rows(found, by_name, len(pairs))


def _functions(file: OpTable, model: OpTable) -> dict[str, str]:
    """Returns the model's name of each function of the file; single functions correspond under any name."""
    if len(file.functions) == len(model.functions) == 1:
        return {file.functions[0]: model.functions[0]}
    return {name: name for name in file.functions if name in model.functions}


def _selected(table: OpTable, rows: Sequence[int]) -> OpTable:
    columns = {name: tuple(getattr(table, name)[row] for row in rows) for name in table.columns()}
    return OpTable(**dict[str, Any](columns))


def _moved(plan: Plan, file: OpTable, model: OpTable, rows: dict[int, int]) -> Plan:
    """Moves a plan to the model's table of operations; unjoined operations become inserted ones."""
    taken = set(rows.values())
    left = [row for row in range(len(file)) if row not in taken]
    functions = _functions(file, model)
    listed: list[tuple[int, PlannedOp]] = _inserted(plan, file, model, rows, left, functions)
    nowhere = {setting.compute_units: Choice() for setting in plan.settings}
    unknown: dict[ComputeUnit, Support] = dict.fromkeys(UNITS, "unknown")
    for place, row in enumerate(model):
        there = rows.get(place)
        is_absent = row.function in functions.values() and not row.type.startswith(_FOLDED)
        if there is None and not is_absent:
            continue
        if there is None:
            moved = msgspec.structs.replace(PlannedOp.of(row, nowhere), supported=unknown)
        else:
            planned = plan.ops[there]
            moved = msgspec.structs.replace(
                PlannedOp.of(row, planned.choices),
                supported=planned.supported,
                cost_ms=planned.cost_ms,
                cost_basis=planned.cost_basis,
                why=planned.why,
            )
        listed.append((place, moved))
    listed.sort(key=lambda pair: (pair[0], not pair[1].inserted))
    settings = tuple(
        msgspec.structs.replace(
            setting, functions={functions.get(name, name): cost for name, cost in setting.functions.items()}
        )
        for setting in plan.settings
    )
    return msgspec.structs.replace(plan, ops=PlannedOps(op for _, op in listed), settings=settings)


def _moved_times(measured: Measurement, model: OpTable, rows: dict[int, int]) -> Measurement:
    """A measurement over the model's table; an operation of the file may be several of the model."""
    if not measured.groups:
        return measured
    of_file: dict[int, list[int]] = {}
    for row, there in rows.items():
        of_file.setdefault(there, []).append(row)
    members = [sorted(row for one in group.ops for row in of_file.get(one, ())) for group in measured.groups]
    groups = tuple(
        msgspec.structs.replace(group, ops=tuple(rows_of))
        for group, rows_of in zip(measured.groups, members, strict=True)
    )
    column: list[int] = [-1] * len(model)
    status: list[Status] = ["unattributed"] * len(model)
    for row, there in rows.items():
        column[row] = measured.group[there]
        if column[row] >= 0:
            status[row] = "timed" if len(groups[column[row]].ops) == 1 else "fused"
        else:
            status[row] = measured.status[there]
    return msgspec.structs.replace(measured, groups=groups, group=tuple(column), status=tuple(status))


def _inserted(
    plan: Plan,
    file: OpTable,
    model: OpTable,
    rows: dict[int, int],
    left: Sequence[int],
    functions: dict[str, str],
) -> list[tuple[int, PlannedOp]]:
    """The operations of the file that are not joined, each with the next row of the model that is."""
    first: dict[int, int] = {}
    for row, there in rows.items():
        first[there] = min(row, first.get(there, row))
    ends = {function: row + 1 for row, function in enumerate(model.function)}
    before: dict[int, int] = {}
    place, function = len(model), ""
    for row in range(len(file) - 1, -1, -1):
        if file.function[row] != function:
            function = file.function[row]
            place = ends.get(functions.get(function, ""), len(model))
        place = first.get(row, place)
        before[row] = place
    taken: set[str] = set(model.id)
    numbers: Counter[str] = Counter()
    found = []
    for row in left:
        id_ = _free(f"{file.id[row]}+", taken, numbers)
        taken.add(id_)
        planned = msgspec.structs.replace(
            plan.ops[row],
            id=id_,
            name=file.type[row],
            function=functions.get(file.function[row], file.function[row]),
            inserted=True,
        )
        found.append((before[row], planned))
    return found


def _free(id_: str, taken: set[str], numbers: Counter[str]) -> str:
    """An id that no operation has: the given one, or with a number; `numbers` counts by given id."""
    free = id_
    while free in taken:
        numbers[id_] += 1
        free = f"{id_}{numbers[id_]}"
    return free
