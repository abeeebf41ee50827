"""A device's plan under one setting, read operation by operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coremlscope.devices import ComputeUnit
from coremlscope.results.plan import DevicePlan, SettingEstimate, SettingPlan
from coremlscope.results.profile import OpTable

__all__ = ["EstimatedKernel", "PlacedOp", "estimated_kernels", "placed_ops"]


@dataclass(frozen=True, slots=True)
class PlacedOp:
    """Where one operation goes.

    Attributes:
        id: Its id.
        type: Apple's name of the operation.
        name: The author's name; the type where Core ML inserts it.
        outputs: Types of its results.
        unit: The compute unit; None where none is known to run it.
        backend: The implementation; None likewise.
        planned_ms: Its planned cost there; None where that is not known.
    """

    id: str
    type: str
    name: str
    outputs: tuple[str, ...]
    unit: ComputeUnit | None
    backend: str | None
    planned_ms: float | None


@dataclass(frozen=True, slots=True)
class EstimatedKernel:
    """Operations that a device is taken to run as one.

    Attributes:
        ops: Rows of the op table.
        unit: Where it runs.
        seconds: How long that is estimated to take; it belongs to all the operations together.
        bound: What it waits for.
    """

    ops: tuple[int, ...]
    unit: ComputeUnit
    seconds: float
    bound: str


def placed_ops(ops: OpTable, plan: DevicePlan, setting: SettingPlan) -> Iterator[PlacedOp]:
    """Every operation that the plan lists, in order, those that Core ML inserts among them."""
    backends = list(plan.backends)
    rows = list(ops)
    waiting = sorted(range(len(plan.inserted)), key=lambda index: plan.inserted[index].before)
    order: list[int] = []
    for row in range(len(rows) + 1):
        while waiting and plan.inserted[waiting[0]].before <= row:
            order.append(len(rows) + waiting.pop(0))
        if row < len(rows):
            order.append(row)
    for column in order:
        if all(supported[column] is None for supported in plan.supported.values()):
            continue
        chosen = setting.backend[column]
        backend = backends[chosen] if chosen >= 0 else None
        if column < len(rows):
            op = rows[column]
            told = (op.id, op.type, op.name, op.outputs)
        else:
            inserted = plan.inserted[column - len(rows)]
            told = (inserted.id, inserted.type, inserted.type, inserted.outputs)
        if backend is None:
            yield PlacedOp(*told, None, None, None)
        else:
            yield PlacedOp(*told, plan.backends[backend], backend, plan.cost_ms[backend][column])


def estimated_kernels(ops: OpTable, plan: DevicePlan, estimate: SettingEstimate) -> list[EstimatedKernel]:
    """Every kernel of an estimate, in the order of execution."""
    members: dict[int, list[int]] = {}
    for row, kernel in enumerate(ops.kernel):
        if kernel is not None:
            members.setdefault(kernel, []).append(row)
    columns = zip(estimate.kernel_s, estimate.kernel_unit, estimate.kernel_bound, strict=True)
    return [
        EstimatedKernel(tuple(members.get(index, ())), plan.units[unit], seconds, bound)
        for index, (seconds, unit, bound) in enumerate(columns)
    ]
