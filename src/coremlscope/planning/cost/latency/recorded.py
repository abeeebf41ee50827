"""The kernels of a placed prediction as plain numbers, and estimates computed from these."""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from coremlscope.devices import UNITS, ComputeUnit, ComputeUnits, Device
from coremlscope.planning.cost.latency.calibration import Calibration
from coremlscope.planning.cost.latency.kinds import KERNEL_KINDS
from coremlscope.planning.cost.latency.model import estimate
from coremlscope.planning.cost.latency.table import KernelTable
from coremlscope.planning.cost.latency.work import Work
from coremlscope.results.calibration import KernelColumns
from coremlscope.results.estimate import Estimate

_STEPS, _UNIT = "steps", "unit"
_COLUMNS = (*KernelTable.__struct_fields__, _STEPS, _UNIT)


def record(work: Work) -> KernelColumns:
    """Returns the numbers of a prediction's work, those of equal kernels once."""
    rows: dict[tuple[float, ...], int] = {}
    order = []
    for place, unit in enumerate(work.units):
        numbers = [float(getattr(work.table, name)[place]) for name in KernelTable.__struct_fields__]
        row = (*numbers, float(work.steps[place]), float(UNITS.index(unit)))
        order.append(rows.setdefault(row, len(rows)))
    columns = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True)) if rows else {}
    return KernelColumns(
        columns=columns,
        order=tuple(order),
        converted_bytes=work.converted_bytes,
        switches=work.switches,
        returns=work.returns,
        moved=tuple((here, there, elements) for (here, there), elements in work.moved.items()),
    )


def is_current(recorded: KernelColumns) -> bool:
    """Returns whether a record has the numbers that estimates need, and no index beyond its rows."""
    columns = [recorded.columns.get(name, ()) for name in _COLUMNS]
    count = len(columns[0])
    if not count or {len(column) for column in columns} != {count} or not recorded.order:
        return False
    if not all(math.isfinite(number) and number >= 0 for column in columns for number in column):
        return False
    kinds, units = recorded.columns["kind"], recorded.columns[_UNIT]
    return (
        all(0 <= index < count for index in recorded.order)
        and all(kind in range(len(KERNEL_KINDS)) for kind in kinds)
        and all(unit in range(len(UNITS)) for unit in units)
    )


def on_unit(recorded: KernelColumns, unit: ComputeUnit) -> KernelColumns:
    """Returns the record with all kernels on one unit."""
    column = (float(UNITS.index(unit)),) * len(recorded.columns[_UNIT])
    columns = {**recorded.columns, _UNIT: column}
    return replace(recorded, columns=columns, switches=0, returns=0, moved=())


def estimate_recorded(
    recorded: KernelColumns,
    device: Device,
    compute_units: ComputeUnits = "all",
    calibration: Calibration | None = None,
) -> Estimate:
    """Estimates a recorded prediction; see `estimate`.

    Raises:
        ValueError: The record lacks numbers that estimates need; see `is_current`.
    """
    if not is_current(recorded):
        raise ValueError("the record is of another version")
    columns = {name: [column[row] for row in recorded.order] for name, column in recorded.columns.items()}
    work = Work(
        table=KernelTable.of_columns({name: columns[name] for name in KernelTable.__struct_fields__}),
        steps=np.array(columns[_STEPS]),
        units=tuple(UNITS[int(unit)] for unit in columns[_UNIT]),
        switches=recorded.switches,
        returns=recorded.returns,
        moved={(here, there): elements for here, there, elements in recorded.moved},
        converted_bytes=recorded.converted_bytes,
    )
    return estimate(work, device, compute_units, calibration=calibration)


def structure_digest(recorded: KernelColumns) -> str:
    """Returns a digest of the kernels without their units: equal for one model under every setting."""
    names = sorted(set(recorded.columns) - {_UNIT})
    rows = list(zip(*(recorded.columns[name] for name in names), strict=True))
    text = "\n".join(repr([f"{number:.6g}" for number in rows[index]]) for index in recorded.order)
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:16]
