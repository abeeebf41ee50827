"""Plans and estimates of devices as columns beside a profile's op table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from itertools import groupby

from coremlscope.cost.latency.model import LatencyEstimate
from coremlscope.cost.planned.rates import era
from coremlscope.devices import UNITS, ComputeUnit
from coremlscope.forecast.estimating import Estimated
from coremlscope.forecast.planning import notes_on
from coremlscope.placement.backend import BACKENDS, UNIT_OF, Backend
from coremlscope.placement.plan import FunctionPlan, Planned
from coremlscope.placement.verdict import Reason, Verdict
from coremlscope.results.plan import DevicePlan, InsertedOp, PlanReason, SettingEstimate, SettingPlan
from coremlscope.results.profile import OpTable, Profile

__all__ = ["tabulate_plans", "with_plans"]

_SUPPORT = {"yes": 1, "no": 0, "unknown": -1}
_UNITS_OF_BACKENDS: dict[str, ComputeUnit] = {backend: UNIT_OF[backend] for backend in BACKENDS}
_BACKEND_INDEX = {backend: index for index, backend in enumerate(BACKENDS)}
_UNIT_INDEX = {unit: index for index, unit in enumerate(UNITS)}


def with_plans(profile: Profile, found: Sequence[Estimated]) -> Profile:
    """The profile with the plans and estimates of devices.

    Args:
        profile: What was measured.
        found: Estimates of the same function; those of one device follow each other.
    """
    ops, plans = tabulate_plans(profile.ops, found)
    return dataclasses.replace(profile, ops=ops, plans=plans)


def tabulate_plans(ops: OpTable, found: Sequence[Estimated]) -> tuple[OpTable, tuple[DevicePlan, ...]]:
    """The plans and estimates of devices, and the op table with the kernels that estimates are told by.

    Args:
        ops: Every operation.
        found: Estimates of the same function; those of one device follow each other.
    """
    if not found:
        return ops, ()
    kernels = _kernel_column(ops, found[0].estimate)
    plans = tuple(
        _device_plan(ops, list(settings)) for _, settings in groupby(found, key=lambda one: one.device)
    )
    return dataclasses.replace(ops, kernel=kernels), plans


def _kernel_column(ops: OpTable, estimate: LatencyEstimate) -> tuple[int | None, ...]:
    owners = {id_: index for index, kernel in enumerate(estimate.kernels) for id_ in kernel.ops}
    return tuple(owners.get(id_) for id_ in ops.id)


def _device_plan(ops: OpTable, settings: Sequence[Estimated]) -> DevicePlan:
    device, plans = settings[0].device, settings[0].plans
    planned = {op.id: op for plan in plans for op in plan.ops}
    inserted = _inserted(ops, plans)
    columns = [planned.get(id_) for id_ in (*ops.id, *(op.id for op in inserted))]
    reasons = _Reasons()
    return DevicePlan(
        device.name, device.chip.id, str(device.os), era(device.os).name,
        notes_on(device, [one.compute_units for one in settings], any(ops.layer)),
        UNITS, dict(_UNITS_OF_BACKENDS), inserted,
        {unit: tuple(_support(op, unit) for op in columns) for unit in UNITS},
        {backend: tuple(_cost(op, backend) for op in columns) for backend in BACKENDS},
        why=tuple(reasons.indices(r for v in _verdicts(op) for r in v.reasons) for op in columns),
        advice=tuple(reasons.indices(r for v in _verdicts(op) for r in v.advice) for op in columns),
        reasons=tuple(reasons.found),
        settings=tuple(_setting(one, plans, columns) for one in settings),
    )  # fmt: skip


def _verdicts(op: Planned | None) -> Iterable[Verdict]:
    return () if op is None else op.verdicts.values()


def _inserted(ops: OpTable, plans: Sequence[FunctionPlan]) -> tuple[InsertedOp, ...]:
    rows = {id_: index for index, id_ in enumerate(ops.id)}
    found = []
    for plan in plans:
        places = [rows[op.id] for op in plan.ops if op.id in rows]
        before = max(places, default=len(rows) - 1) + 1
        # Backwards: an inserted operation stands before the next one that the table holds.
        for op in reversed(plan.ops):
            if op.inserted:
                found.append(InsertedOp(op.id, op.type, plan.name, op.types, before))
            else:
                before = rows.get(op.id, before)
    return tuple(reversed(found))


def _setting(one: Estimated, plans: Sequence[FunctionPlan], columns: Sequence[Planned | None]) -> SettingPlan:
    setting = one.compute_units
    choices = [None if op is None else op.choices[setting] for op in columns]
    detours: dict[ComputeUnit, tuple[float | None, ...]] = {
        unit: tuple(_digits(c.detour_ms.get(unit)) if c else None for c in choices) for unit in UNITS
    }
    return SettingPlan(
        setting,
        sum(plan.total_ms[setting] for plan in plans),
        sum(plan.switches(setting) for plan in plans),
        tuple(_BACKEND_INDEX[c.backend] if c and c.backend else -1 for c in choices),
        {unit: column for unit, column in detours.items() if any(more is not None for more in column)},
        _estimate(one.estimate),
    )


def _estimate(e: LatencyEstimate) -> SettingEstimate:
    return SettingEstimate(
        e.latency, e.basis, e.bound, {str(part): seconds for part, seconds in e.parts.items()},
        dict(e.placement), e.switches,
        tuple(kernel.seconds for kernel in e.kernels),
        tuple(_UNIT_INDEX[kernel.unit] for kernel in e.kernels),
        tuple(kernel.bound for kernel in e.kernels),
    )  # fmt: skip


def _support(op: Planned | None, unit: ComputeUnit) -> int | None:
    return None if op is None else _SUPPORT[op.supported(unit)]


def _cost(op: Planned | None, backend: Backend) -> float | None:
    cost = None if op is None else op.costs.get(backend)
    return None if cost is None else _digits(cost.ms)


def _digits(value: float | None) -> float | None:
    """Six significant digits: a model has tens of thousands of these, and they are a plan's."""
    return None if value is None else float(f"{value:.6g}")


class _Reasons:
    """Every distinct reason, once."""

    def __init__(self) -> None:
        self.found: list[PlanReason] = []
        self._places: dict[PlanReason, int] = {}

    def indices(self, reasons: Iterable[Reason]) -> tuple[int, ...]:
        """The places of reasons, new ones added."""
        return tuple(map(self._index, reasons))

    def _index(self, reason: Reason) -> int:
        kept = PlanReason(
            reason.unit,
            reason.rule,
            reason.text,
            reason.fix,
            reason.core_ml,
            reason.confidence,
            reason.source,
        )
        if kept not in self._places:
            self._places[kept] = len(self.found)
            self.found.append(kept)
        return self._places[kept]
