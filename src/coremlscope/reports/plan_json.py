"""The form of `plan --json`: a plan operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from coremlscope.devices.unit import SETTINGS
from coremlscope.results.plan import (
    Choice,
    Plan,
    PlannedOp,
    PlanView,
    Reason,
    Undecided,
    WhatIf,
    find_segments,
    undecided_counts,
    unit_costs_ms,
    unit_counts,
)
from coremlscope.results.profile import Profile

#: Name and version of the form.
SCHEMA = "coremlscope.plan/1"
_SEVERAL = "coremlscope.plans/1"


def plan_to_json(profile: Profile, plan: Plan | None = None) -> dict[str, Any]:
    """A plan as plain values.

    Keys of an operation or function are those of the first setting; with several settings all of them are
    also under `settings`.

    Args:
        profile: The profile.
        plan: One of its plans; the first where it is None.

    Raises:
        LookupError: The profile does not contain a plan.
    """
    if plan is None:
        if not profile.plans:
            raise LookupError("this profile does not contain a plan")
        plan = profile.plans[0]
    views = [plan.view(setting) for setting in plan.settings]
    return {
        "schema": SCHEMA,
        "origin": plan.origin,
        "device": plan.device,
        "chip": plan.chip,
        "os": plan.os,
        "compute_units": views[0].compute_units,
        "cost_model": plan.cost_model,
        "notes": list(plan.notes),
        "functions": {name: _Function(views, name, ops).to_json() for name, ops in plan.functions().items()},
    }


def plans_to_json(profiles: Sequence[Profile]) -> dict[str, Any]:
    """All plans of profiles as plain values: a single one by itself, several under `plans`."""
    plans = [plan_to_json(profile, plan) for profile in profiles for plan in profile.plans]
    return plans[0] if len(plans) == 1 else {"schema": _SEVERAL, "plans": plans}


def what_if_to_json(view: PlanView, one: WhatIf) -> dict[str, Any]:
    """The cost of a reason as plain values."""
    saved = one.saved_s
    return {
        "hypothesis": one.hypothesis,
        "unit": one.unit,
        "rule": one.rule,
        "reason": one.reason,
        "effect": one.effect,
        "fix": one.fix,
        "confidence": one.confidence,
        "source": one.source,
        "operations": [view.plan.ops[place].id for place in one.ops],
        "moved": dict(one.moved),
        "planned_ms": one.planned_ms,
        "planned_saving_ms": one.saved_ms,
        "estimated_saving_ms": None
        if saved is None
        else {"value": saved.value * 1e3, "low": saved.low * 1e3, "high": saved.high * 1e3},
        "switches": one.switches,
    }


class _Function:
    """One function under all settings, with its operations."""

    def __init__(self, views: list[PlanView], name: str, ops: tuple[PlannedOp, ...]) -> None:
        self._views, self._name, self._ops = views, name, ops

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        first = self._views[0].compute_units
        by_id = {op.id: op for op in self._ops}
        return {
            **self._totals(self._views[0]),
            "segments": [
                {
                    "unit": segment.unit,
                    "operations": list(segment.ops),
                    "planned_ms": sum(by_id[id_].choices[first].planned_ms or 0.0 for id_ in segment.ops),
                }
                for segment in find_segments((op.id, op.choices[first].unit) for op in self._ops)
            ],
            **self._others(self._totals),
            "what_ifs": [
                what_if_to_json(self._views[0], one)
                for one in self._views[0].setting.what_ifs
                if one.function == self._name
            ],
            "operations": [self._operation(op) for op in self._ops],
        }

    def _others(self, describe: Callable[[PlanView], dict[str, Any]]) -> Mapping[str, Any]:
        if len(self._views) == 1:
            return {}
        return {"settings": {view.compute_units: describe(view) for view in self._views}}

    def _totals(self, view: PlanView) -> dict[str, Any]:
        setting = view.compute_units
        cost = view.setting.functions.get(self._name)
        counts, undecided = unit_counts(self._ops, setting), undecided_counts(self._ops, setting)
        units = {unit: counts[unit] for unit in SETTINGS[setting]}
        return {
            "planned_ms": None if cost is None or view.plan.total_ms(view.setting) is None else cost.total_ms,
            "left_out": view.plan.left_out,
            "left_out_share": view.plan.left_out_share,
            "switches": None if cost is None else cost.switches,
            "counts": {**units, "unknown": counts[None]},
            "undecided": {kind: undecided[kind] for kind in get_args(Undecided)},
            "cost_ms": unit_costs_ms(self._ops, setting),
            "time_shares": {} if cost is None else dict(cost.time_shares),
        }

    def _operation(self, op: PlannedOp) -> dict[str, Any]:
        first = self._views[0]
        return {
            "id": op.id,
            "name": op.name,
            "type": op.type,
            "outputs": list(op.output_names),
            "inserted": op.inserted,
            **_choice(op.choices[first.compute_units]),
            "supported": [unit for unit, support in op.supported.items() if support == "yes"],
            "unknown": [unit for unit, support in op.supported.items() if support == "unknown"],
            "planned_ms": dict(op.cost_ms),
            "planned_basis": dict(op.cost_basis),
            **self._others(lambda view: _choice(op.choices[view.compute_units])),
            "reasons": [_reason(reason) for reason in first.plan.reasons(op, first.compute_units)],
            "advice": [_reason(reason) for reason in op.advice],
            "doubts": [_reason(reason) for reason in op.doubts],
        }


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "preferred": choice.unit,
        "selected_backend": choice.backend,
        "weight": choice.weight,
        "detour_ms": dict(choice.detour_ms),
        "alternatives": dict(choice.alternatives),
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
