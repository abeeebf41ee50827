"""Reasons of a plan, grouped: what holds operations back from a unit, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from coremlscope.devices.unit import CPU, SETTINGS, ComputeUnit, ComputeUnits
from coremlscope.placement.plan import COST_RULE, FunctionPlan, Planned
from coremlscope.placement.verdict import Reason

__all__ = ["ReasonGroup", "group_advice", "group_reasons", "unknown_ops"]


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Operations that one rule holds back from a unit.

    Attributes:
        unit: The unit.
        reason: The rule, as it speaks of the first operation.
        ops: The operations.
        varies: True where the rule says something else of the others.
        planned_ms: What they cost by the plan, where they run now.
    """

    unit: ComputeUnit
    reason: Reason
    ops: tuple[Planned, ...]
    varies: bool
    planned_ms: float


def group_reasons(function: FunctionPlan, setting: ComputeUnits) -> list[ReasonGroup]:
    """Why operations are not on the accelerators that a setting allows, costliest groups first.

    That the CPU could run an operation which an accelerator runs is no reason for anything, and left out.
    """
    found: dict[tuple[ComputeUnit, str], list[tuple[Planned, Reason]]] = {}
    for op in function.ops:
        for reason in op.reasons(setting):
            if reason.unit != CPU and _counts(reason, op, setting):
                found.setdefault((reason.unit, reason.rule), []).append((op, reason))
    return _groups(found, setting)


def _counts(reason: Reason, op: Planned, setting: ComputeUnits) -> bool:
    """What a detour costs is told of operations on the CPU only: people look for the accelerators."""
    return reason.rule != COST_RULE or op.choices[setting].unit == CPU


def group_advice(function: FunctionPlan, setting: ComputeUnits) -> list[ReasonGroup]:
    """What rules advise on operations where they run."""
    found: dict[tuple[ComputeUnit, str], list[tuple[Planned, Reason]]] = {}
    for op in function.ops:
        unit = op.choices[setting].unit
        if unit is not None:
            for reason in op.verdicts[unit].advice:
                found.setdefault((unit, reason.rule), []).append((op, reason))
    return _groups(found, setting)


def _groups(
    found: dict[tuple[ComputeUnit, str], list[tuple[Planned, Reason]]], setting: ComputeUnits
) -> list[ReasonGroup]:
    groups = []
    for (unit, _), members in found.items():
        ops = tuple(op for op, _ in members)
        cost = sum(op.cost_ms(setting) or 0.0 for op in ops)
        texts = {reason.text for _, reason in members}
        groups.append(ReasonGroup(unit, members[0][1], ops, len(texts) > 1, cost))
    return sorted(groups, key=lambda group: (-group.planned_ms, -len(group.ops)))


def unknown_ops(function: FunctionPlan, setting: ComputeUnits) -> dict[ComputeUnit, list[Planned]]:
    """Operations that no rule speaks of, by unit."""
    return {
        unit: ops
        for unit in SETTINGS[setting]
        if (ops := [op for op in function.ops if op.supported(unit) == "unknown"])
    }
