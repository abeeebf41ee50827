"""A plan as notebooks show it, and as columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coremlscope.devices.unit import SETTINGS, UNITS, ComputeUnit
from coremlscope.notebook import Grid, card
from coremlscope.units import format_duration, format_share

if TYPE_CHECKING:
    from coremlscope.placement.plan import FunctionPlan, Plan

__all__ = ["plan_card", "plan_columns"]

_NAMES: dict[ComputeUnit, str] = {"cpu": "CPU", "gpu": "GPU", "neural_engine": "Neural Engine"}
_LISTED = 8


def plan_card(plan: Plan) -> str:
    """How many operations each unit runs, and the costliest operations, under the first setting."""
    setting = plan.settings[0]
    grids = []
    for name, function in plan.functions.items():
        prefix = f"{name}: " if len(plan.functions) > 1 else ""
        grids += [_units(prefix, plan, function), _costliest(prefix, plan, function)]
    remark = f"{setting} on {plan.device.os}; planned by Core ML's cost model, nothing was measured"
    return card(plan.device.name, remark, grids, plan.notes)


def _units(prefix: str, plan: Plan, function: FunctionPlan) -> Grid:
    setting = plan.settings[0]
    counts, costs = function.counts(setting), function.cost_ms(setting)
    whole = sum(costs.values()) or 1.0
    rows: list[tuple[str | float, ...]] = [
        (_NAMES[unit], str(counts[unit]), format_duration(costs[unit] / 1e3), costs[unit] / whole)
        for unit in SETTINGS[setting]
    ]
    if counts[None]:
        rows.append(("unknown", str(counts[None]), "–", ""))
    total = format_duration(function.total_ms[setting] / 1e3)
    title = f"{prefix}{total} planned in all, launches and changes of unit included"
    return Grid(title, ("unit", "operations>", "planned>", ""), rows)


def _costliest(prefix: str, plan: Plan, function: FunctionPlan) -> Grid:
    setting = plan.settings[0]
    ops = sorted(function.ops, key=lambda op: -op.choices[setting].weight)[:_LISTED]
    rows = []
    for op in ops:
        unit, cost = op.choices[setting].unit, op.cost_ms(setting)
        planned = "–" if cost is None else format_duration(cost / 1e3)
        where = "unknown" if unit is None else _NAMES[unit]
        rows.append((op.name, op.type, where, planned, format_share(op.choices[setting].weight)))
    return Grid(f"{prefix}costliest operations", ("operation", "type", "unit", "planned>", "share>"), rows)


def plan_columns(plan: Plan) -> dict[str, list[Any]]:
    """One row for each operation under each setting, function by function."""
    names = (
        "function", "id", "name", "type", "results", "inserted", "compute_units", "unit", "backend",
        "planned_ms", "share", *(f"supported_{unit}" for unit in UNITS), "reasons",
    )  # fmt: skip
    rows = list(_rows(plan))
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _rows(plan: Plan) -> Iterable[tuple[Any, ...]]:
    for name, function in plan.functions.items():
        for setting in plan.settings:
            for op in function.ops:
                choice = op.choices[setting]
                reasons = "; ".join(f"{reason.unit}: {reason.text}" for reason in op.reasons(setting))
                yield (
                    name, op.id, op.name, op.type, "; ".join(op.types), op.inserted, setting, choice.unit,
                    choice.backend, op.cost_ms(setting), choice.weight,
                    *(op.supported(unit) for unit in UNITS), reasons,
                )  # fmt: skip
