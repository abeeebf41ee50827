"""How far the plan by rules agrees with Core ML's own plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

import msgspec

from coremlscope.devices.unit import ComputeUnit, ComputeUnits
from coremlscope.results.plan import Choice, Plan, PlannedOp, Undecided

_CORE_ML: Final = "Core ML"
_RULES: Final = "rules"


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that the two plans run on different units.

    Attributes:
        op: Its id.
        type: Apple's name of the operation.
        name: The author's name.
        ours: Its unit by rules; None if no rule covers it on any unit.
        theirs: Its unit by Core ML.
        why: Our reasons against Core ML's unit; empty if the rules allow it there.
        message: Core ML's own messages about our unit; empty if it gives none.
        share: Its share of the planned cost of all compared operations; None if costs are unknown.
        undecided: Why our evidence does not decide against Core ML's unit; None where it does.
    """

    op: str
    type: str
    name: str
    ours: ComputeUnit | None
    theirs: ComputeUnit
    why: tuple[str, ...] = ()
    message: str = ""
    share: float | None = None
    undecided: Undecided | None = None


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """The agreement of the plan by rules with Core ML's, under one setting, on the operations of the file.

    Attributes:
        theirs: Index of Core ML's plan among the plans of the profile.
        ours: Index of the plan by rules.
        compute_units: The setting.
        compared: Number of operations that both plans place on a unit.
        agreed: Number of them that both place on the same unit.
        unknown: Number of operations that Core ML places and no rule covers; they are not compared.
        share: `agreed / compared`; None if nothing can be compared.
        cost_share: The same, weighted by planned cost; None if costs are unknown.
        weighted_by: Whose costs are the weights: `Core ML`, or `rules` where it gives none; empty if neither
            gives costs.
        disagreements: The operations on different units and the unknown ones, in program order.
        undecided: Number of compared operations that may run on another unit as well by our evidence: ties of
            equal cost, and those that depend on rates within their intervals.
        decided_share: The share of the others that both plans place on the same unit; None if there are none.
    """

    theirs: int
    ours: int
    compute_units: ComputeUnits
    compared: int
    agreed: int
    unknown: int = 0
    share: float | None = None
    cost_share: float | None = None
    weighted_by: Literal["", "Core ML", "rules"] = ""
    disagreements: tuple[Disagreement, ...] = ()
    undecided: int = 0
    decided_share: float | None = None


def find_agreements(plans: Sequence[Plan]) -> tuple[Agreement, ...]:
    """Compares each plan by Core ML with the plan by rules for the same chip and system, if there is one.

    Args:
        plans: The plans of a profile.
    """
    return tuple(_agreements(plans))


def _agreements(plans: Sequence[Plan]) -> Iterator[Agreement]:
    for index, theirs in enumerate(plans):
        if theirs.planner != _CORE_ML or not theirs.chip:
            continue
        for number, ours in enumerate(plans):
            if ours.planner != _RULES or (ours.chip, ours.os) != (theirs.chip, theirs.os):
                continue
            for setting in theirs.settings:
                same = ours.setting(setting.compute_units)
                if same is not None:
                    yield _compare(index, theirs, number, ours, setting.compute_units)
            break


def _compare(index: int, theirs: Plan, number: int, ours: Plan, setting: ComputeUnits) -> Agreement:
    partners = {op.id: op for op in ours.ops if not op.inserted}
    placed = [
        (op, partners[op.id])
        for op in theirs.ops
        if op.choices[setting].unit is not None and op.id in partners
    ]
    pairs = [(their, our) for their, our in placed if our.choices[setting].unit is not None]
    agreed = [their.choices[setting].unit == our.choices[setting].unit for their, our in pairs]
    decided = [
        same for same, (_, our) in zip(agreed, pairs, strict=True) if not our.choices[setting].alternatives
    ]
    by, weigh = _weights([(their.choices[setting], our.choices[setting]) for their, our in pairs])
    weights = [weigh(their.choices[setting], our.choices[setting]) for their, our in pairs]
    total = sum(weights)
    shares = {their.id: _share(weight, total) for (their, _), weight in zip(pairs, weights, strict=True)}
    return Agreement(
        theirs=index,
        ours=number,
        compute_units=setting,
        compared=len(pairs),
        agreed=sum(agreed),
        unknown=len(placed) - len(pairs),
        share=_share(sum(agreed), len(pairs)),
        cost_share=_share(sum(w for w, same in zip(weights, agreed, strict=True) if same), total),
        weighted_by=by if total else "",
        undecided=len(pairs) - len(decided),
        decided_share=_share(sum(decided), len(decided)),
        disagreements=tuple(
            _disagreement(their, our, ours, setting, shares.get(their.id))
            for their, our in placed
            if their.choices[setting].unit != our.choices[setting].unit
        ),
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _weights(
    pairs: Sequence[tuple[Choice, Choice]],
) -> tuple[Literal["Core ML", "rules"], Callable[[Choice, Choice], float]]:
    """Returns whose costs weigh operations, and the weight of one."""
    if any(their.planned_ms for their, _ in pairs):
        return _CORE_ML, lambda their, _: their.planned_ms or 0.0
    if any(their.weight for their, _ in pairs):
        return _CORE_ML, lambda their, _: their.weight
    return _RULES, lambda _, our: our.planned_ms or 0.0


def _disagreement(
    their: PlannedOp, our: PlannedOp, ours: Plan, setting: ComputeUnits, share: float | None
) -> Disagreement:
    here, there = our.choices[setting], their.choices[setting].unit
    assert there is not None
    messages = dict.fromkeys(
        reason.core_ml or reason.text for reason in their.why if reason.unit == here.unit
    )
    return Disagreement(
        op=their.id,
        type=their.type,
        name=their.name,
        ours=here.unit,
        theirs=there,
        why=tuple(reason.text for reason in ours.reasons(our, setting) if reason.unit == there),
        message=" ".join(messages),
        share=share,
        undecided=here.alternatives.get(there),
    )
