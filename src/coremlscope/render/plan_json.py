"""A plan as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from coremlscope.devices.unit import SETTINGS, ComputeUnits
from coremlscope.placement.plan import FunctionPlan, Plan, Planned
from coremlscope.placement.verdict import Reason

__all__ = ["SCHEMA", "plan_to_json", "render_plan_json"]

#: Name and version of the form.
SCHEMA = "coremlscope.plan/1"


def render_plan_json(plan: Plan) -> str:
    """A plan as JSON text."""
    return json.dumps(plan_to_json(plan), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """A plan as plain values. What stands at an operation is of the first setting; with several settings each
    operation and function also holds the others under `settings`."""
    setting = plan.settings[0]
    return {
        "schema": SCHEMA,
        "origin": "planned",
        "device": plan.device.name,
        "chip": plan.device.chip.id,
        "os": str(plan.device.os),
        "compute_units": setting,
        "cost_model": plan.basis,
        "notes": list(plan.notes),
        "functions": {name: _function(plan, function) for name, function in plan.functions.items()},
    }


def _function(plan: Plan, function: FunctionPlan) -> dict[str, Any]:
    setting = plan.settings[0]
    return {
        **_totals(function, setting),
        "segments": [
            {"backend": segment.backend, "operations": list(segment.ops), "planned_ms": segment.planned_ms}
            for segment in function.segments[setting]
        ],
        **_others(plan, lambda other: _totals(function, other)),
        "operations": [_operation(plan, op) for op in function.ops],
    }


def _others(plan: Plan, tell: Any) -> Mapping[str, Any]:
    if len(plan.settings) == 1:
        return {}
    return {"settings": {other: tell(other) for other in plan.settings}}


def _totals(function: FunctionPlan, setting: ComputeUnits) -> dict[str, Any]:
    counts = function.counts(setting)
    return {
        "planned_ms": function.total_ms[setting],
        "switches": function.switches(setting),
        "counts": {**{unit: counts[unit] for unit in SETTINGS[setting]}, "unknown": counts[None]},
        "cost_ms": function.cost_ms(setting),
    }


def _operation(plan: Plan, op: Planned) -> dict[str, Any]:
    setting = plan.settings[0]
    return {
        "id": op.id,
        "name": op.name,
        "type": op.type,
        "outputs": list(op.outputs),
        "inserted": op.inserted,
        **_choice(op, setting),
        "supported": [unit for unit in op.verdicts if op.supported(unit) == "yes"],
        "unknown": [unit for unit in op.verdicts if op.supported(unit) == "unknown"],
        "planned_ms": {backend: cost.ms for backend, cost in op.costs.items()},
        "planned_basis": {backend: cost.basis for backend, cost in op.costs.items()},
        **_others(plan, lambda other: _choice(op, other)),
        "reasons": [_reason(reason) for reason in op.reasons(setting)],
        "advice": [_reason(reason) for verdict in op.verdicts.values() for reason in verdict.advice],
    }


def _choice(op: Planned, setting: ComputeUnits) -> dict[str, Any]:
    choice = op.choices[setting]
    return {
        "preferred": choice.unit,
        "selected_backend": choice.backend,
        "weight": choice.weight,
        "detour_ms": dict(choice.detour_ms),
    }


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "unit": reason.unit,
        "rule": reason.rule,
        "text": reason.text,
        "core_ml": reason.core_ml,
        "fix": reason.fix,
        "confidence": reason.confidence,
        "source": reason.source,
    }
