"""Reasons of a plan, grouped: what keeps operations off a unit, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.base.findings import least_known
from coremlscope.base.units import format_cost
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, SETTINGS, UNIT_WORDS, ComputeUnit, ComputeUnits
from coremlscope.results.plan import (
    COST_RULE,
    COST_SOURCE,
    DEFECTS,
    EQUAL_COST_MS,
    Hypothesis,
    PlannedOp,
    PlanView,
    Reason,
    WhatIf,
    join_fixes,
)

#: The units that an operation runs on although this one is usually faster.
_SLOWER: dict[ComputeUnit, tuple[ComputeUnit, ...]] = {NEURAL_ENGINE: (GPU, CPU), GPU: (CPU,), CPU: ()}

_Members = list[tuple[PlannedOp, Reason]]


class ReasonGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Operations that one rule keeps off a unit.

    Attributes:
        unit: The unit.
        reason: The reason of the first operation.
        ops: The operations.
        varies: True where the reasons of the others have other numbers.
        planned_ms: What they cost by the plan, where they run now.
        effect: What the plan would be without the reason, in a sentence; empty where that is not known.
    """

    unit: ComputeUnit
    reason: Reason
    ops: tuple[PlannedOp, ...]
    varies: bool
    planned_ms: float
    effect: str = ""

    @property
    def example(self) -> str:
        """The name of an operation: of the file, if there is one."""
        return next((op.name for op in self.ops if not op.inserted), "")


def group_what_ifs(view: PlanView, function: str, *hypotheses: Hypothesis) -> list[ReasonGroup]:
    """The reasons of a function under some hypotheses, the largest planned saving first.

    Args:
        view: The plan under one setting.
        function: The function.
        hypotheses: Which hypotheses are wanted.
    """
    return [
        _group_of(view, one)
        for one in view.setting.what_ifs
        if one.function == function and one.hypothesis in hypotheses
    ]


def find_dearer(view: PlanView, unit: ComputeUnit, ops: Sequence[PlannedOp]) -> ReasonGroup | None:
    """The operations that a unit can run, but not for less, so that a slower unit runs them.

    Args:
        view: The plan under one setting.
        unit: The Neural Engine or the GPU.
        ops: The operations of a function.

    Returns:
        The operations with what they would cost more; None if there are none, or the plan is another's.
    """
    if unit not in SETTINGS[view.compute_units] or view.plan.planner != "rules":
        return None
    backends = [backend for backend, owner in view.plan.backends.items() if owner == unit]
    found, more_ms = [], 0.0
    for op in ops:
        there = min((op.cost_ms[one] for one in backends if one in op.cost_ms), default=None)
        chosen = op.choices[view.compute_units]
        here = chosen.planned_ms
        if op.inserted or chosen.unit not in _SLOWER[unit] or here is None or there is None:
            continue
        if op.supported.get(unit) == "yes" and there - here > -EQUAL_COST_MS:
            found.append(op)
            more_ms += there - here
    if not found:
        return None
    these, themselves = ("it", "itself") if len(found) == 1 else ("these", "themselves")
    costs = (
        f"at a planned cost of {format_cost(more_ms)} more"
        if more_ms > EQUAL_COST_MS
        else "at the same planned cost"
    )
    text = f"{UNIT_WORDS[unit]} can run {these}, {costs} by {themselves}"
    reason = Reason(unit=unit, rule=COST_RULE, text=text, confidence="measured", source=COST_SOURCE)
    spent = _spent(found, view.compute_units)
    return ReasonGroup(unit=unit, reason=reason, ops=tuple(found), varies=False, planned_ms=spent)


def find_savings(view: PlanView) -> list[WhatIf]:
    """Returns the reasons without which a prediction takes less time, as estimated, else as planned.

    They are in the order of the plan: the largest planned saving first.
    """
    return [one for one in view.setting.what_ifs if one.hypothesis in ("without", "moved") and _saves(one)]


def _saves(one: WhatIf) -> bool:
    return bool(one.moved) and (one.saved_ms > 0 if one.saved_s is None else one.saved_s.value > 0)


def _group_of(view: PlanView, one: WhatIf) -> ReasonGroup:
    ops = tuple(view.plan.ops[place] for place in one.ops)
    reason = Reason(
        unit=one.unit,
        rule=one.rule,
        text=one.reason,
        fix=one.fix,
        confidence=one.confidence,
        source=one.source,
    )
    return ReasonGroup(
        unit=one.unit,
        reason=reason,
        ops=ops,
        varies=one.varies,
        planned_ms=_spent(ops, view.compute_units),
        effect=one.effect,
    )


def group_reasons(view: PlanView, function: str, ops: Sequence[PlannedOp]) -> list[ReasonGroup]:
    """Why operations are not on the accelerators that the setting allows.

    The largest planned saving comes first; in plans of Core ML, for which that is not known, the costliest
    group. That the CPU could run an operation which an accelerator runs is left out: nobody asks why it does
    not.

    Args:
        view: The plan under one setting.
        function: One of its functions.
        ops: The operations of the function.
    """
    if view.setting.what_ifs:
        return group_what_ifs(view, function, "without", "moved")
    found: dict[tuple[ComputeUnit, str], _Members] = {}
    for op in ops:
        # Costs of detours are given for operations on the CPU only: people look for the accelerators.
        is_on_cpu = op.choices[view.compute_units].unit == CPU
        for reason in view.plan.reasons(op, view.compute_units):
            if reason.unit != CPU and (is_on_cpu or reason.rule != COST_RULE):
                found.setdefault((reason.unit, reason.rule), []).append((op, reason))
    return _groups(found, view.compute_units)


def group_advice(ops: Sequence[PlannedOp], setting: ComputeUnits) -> list[ReasonGroup]:
    """Groups the advice of rules on operations, for the units they run on. Defects are findings."""
    found: dict[tuple[ComputeUnit, str], _Members] = {}
    for op in ops:
        for reason in op.advice:
            if reason.unit == op.choices[setting].unit and reason.effect not in DEFECTS:
                found.setdefault((reason.unit, reason.rule), []).append((op, reason))
    return _groups(found, setting)


def _groups(found: dict[tuple[ComputeUnit, str], _Members], setting: ComputeUnits) -> list[ReasonGroup]:
    groups = [
        ReasonGroup(
            unit=unit,
            reason=replace(
                members[0][1],
                fix=join_fixes(reason.fix for _, reason in members),
                confidence=least_known(reason.confidence for _, reason in members),
            ),
            ops=tuple(op for op, _ in members),
            varies=len({reason.text for _, reason in members}) > 1,
            planned_ms=_spent([op for op, _ in members], setting),
        )
        for (unit, _), members in found.items()
    ]
    return sorted(groups, key=lambda group: (-group.planned_ms, -len(group.ops)))


def _spent(ops: Sequence[PlannedOp], setting: ComputeUnits) -> float:
    """Returns what operations cost by the plan, where they run, in milliseconds."""
    return sum(op.choices[setting].planned_ms or 0.0 for op in ops)


def unknown_ops(view: PlanView, ops: Sequence[PlannedOp]) -> dict[ComputeUnit, list[PlannedOp]]:
    """Operations that no rule covers, by unit."""
    return {
        unit: found
        for unit in SETTINGS[view.compute_units]
        if (found := [op for op in ops if op.supported.get(unit) == "unknown"])
    }
