"""Findings on defects: operations that end the app, or return wrong values, on the units where they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.base.findings import Finding, least_known
from coremlscope.base.units import shown
from coremlscope.devices.unit import SETTING_WORDS, UNIT_WORDS
from coremlscope.planning.placement.catalog import describe_scope
from coremlscope.planning.placement.eligibility import FoundRule
from coremlscope.planning.placement.forms import join_words
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import DEFECTS, Plan, PlannedOp, PlanView, Reason

#: Operations up to which each is named.
_NAMED = 3


class PlacedDefect(msgspec.Struct, frozen=True, kw_only=True):
    """A defect at the operations that run, or may run, on its unit.

    Attributes:
        reason: The rule.
        ops: The operations, by id, with their names.
        is_certain: Whether the plan puts one of them on the unit; otherwise the evidence does not decide.
    """

    reason: Reason
    ops: Mapping[str, str]
    is_certain: bool


def list_placed_defects(view: PlanView) -> list[PlacedDefect]:
    """Returns the defects that operations meet under one setting of a plan."""
    found: dict[str, list[tuple[Reason, PlannedOp]]] = {}
    for op in view.ops:
        for reason in () if op.inserted else op.advice:
            if reason.effect in DEFECTS and (reason.unit == op.unit or reason.unit in op.alternatives):
                found.setdefault(reason.rule, []).append((reason, op))
    return [
        PlacedDefect(
            reason=replace(met[0][0], confidence=least_known(reason.confidence for reason, _ in met)),
            ops={op.id: op.name for _, op in met},
            is_certain=any(reason.unit == op.unit for reason, op in met),
        )
        for met in found.values()
    ]


def find_placed_defects(plans: Sequence[Plan], table: OpTable) -> Iterator[Finding]:
    """Yields a finding for each defect that a plan meets, with the devices and settings where it does.

    Rules that say the same of several units are one finding.
    """
    found: dict[str, list[tuple[PlacedDefect, str]]] = {}
    for plan in plans:
        # Most plans have no defects; then their operations, which are many, need no list.
        has_defects = any(reason.effect in DEFECTS for reason in plan.reasons)
        for setting in plan.settings if has_defects else ():
            where = f"{plan.device}, {plan.os}, {SETTING_WORDS[setting.compute_units]}"
            for one in list_placed_defects(plan.view(table, setting)):
                found.setdefault(one.reason.text, []).append((one, where))
    for several in found.values():
        defect, _ = several[0]
        ops = {id_: name for one, _ in several for id_, name in one.ops.items()}
        places = "; ".join(
            where if one.is_certain else f"perhaps {where}" for one, where in several[:_NAMED]
        ) + (f" and {len(several) - _NAMED} more" if len(several) > _NAMED else "")
        yield Finding(
            id=defect.reason.rule,
            severity="warning",
            text=f"{_sentence(defect.reason)}: {_listed(list(ops.values()))}. Planned there on {places}.",
            hint=defect.reason.fix,
            ops=tuple(ops),
            confidence=least_known(one.reason.confidence for one, _ in several),
            source=defect.reason.source,
        )


def describe_found_rules(found: Sequence[FoundRule]) -> Iterator[Finding]:
    """Yields a finding for each rule that a model meets on some chip and system, wherever it is planned.

    One that says the same of several units is one finding.
    """
    alike: dict[str, list[FoundRule]] = {}
    for one in found:
        alike.setdefault(one.rule.reason(one.detail).text, []).append(one)
    for several in alike.values():
        first = several[0]
        reason, scope = first.rule.reason(first.detail), describe_scope(first.rule.scope)
        units = join_words([UNIT_WORDS[one.rule.unit] for one in several])
        yield Finding(
            id=reason.rule,
            severity="warning",
            text=f"On {units}{f' ({scope})' if scope else ''}: {reason.text}.",
            hint=reason.fix,
            ops=first.ops,
            confidence=least_known(one.confidence for one in several),
            source=reason.source,
        )


def _sentence(reason: Reason) -> str:
    return f"{reason.text[0].upper()}{reason.text[1:]}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(shown(name) for name in names[:_NAMED]) + more
