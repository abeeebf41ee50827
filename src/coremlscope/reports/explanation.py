"""Explanations of operations: why they run where they do, and what other places would cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coremlscope.base.figures import Figure
from coremlscope.base.units import format_cost
from coremlscope.devices.unit import UNIT_WORDS
from coremlscope.reports.document import Block, Column, Facts, Heading, Item, Table, Text, Title, numbers
from coremlscope.reports.words import (
    NO_COSTS,
    UNDECIDED_WORDS,
    UNIT_NAMES,
    compact_type,
    model_name,
    plural,
)
from coremlscope.results.explanation import AppliedRule, Explanation, Explanations, Forced, PathStep
from coremlscope.results.plan import Undecided, describe_saving

#: Runs of operations shown on each side of the one that holds the operation.
_AROUND = 3
#: Effects of rules.
_EFFECTS = {
    "runs": "runs it",
    "confirms": "was seen to run it",
    "rejects": "rejects it",
    "fails": "fails in the compiler",
    "advises": "advice",
    "corrupts": "returns wrong values",
    "crashes": "ends the app",
    "hangs": "never ends to load",
}


def explanations_document(found: Explanations) -> Iterator[Block]:
    """Yields explanations of operations."""
    yield Title(model_name(found.path))
    yield Facts(
        [
            ("device", f"{found.device}, {found.os}"),
            ("compute units", found.compute_units),
            ("figures", f"{found.cost_model or NO_COSTS}; planned, nothing was measured"),
        ]
    )
    yield from map(Item, found.notes)
    told: set[str] = set()
    for explained in found.ops:
        yield from _explanation(explained, told)
    if found.left_out:
        rest = plural(found.left_out, "cheaper operation")
        yield Text(f"and {rest} that {found.wanted!r} selects", indent=0)


def _explanation(explained: Explanation, told: set[str]) -> Iterator[Block]:
    yield Title(explained.name, f"{explained.type}, {explained.id}")
    if explained.part:
        yield Text(f"{explained.part} is part of this operation, and is not planned by itself", "")
    types = ", ".join(map(compact_type, explained.outputs))
    yield Text("; ".join(filter(None, (types, chosen_line(explained)))), "")
    yield Text(f"path: {path_text(explained.path)}", "")
    yield from _costs(explained)
    others = [
        Item(f"{UNIT_NAMES[forced.unit]}: {_outcome(forced)}", path_text(forced.path))
        for forced in explained.forced
        if not forced.is_chosen
    ]
    if others:
        yield Heading("If it had to run elsewhere", "planned and estimated")
    yield from others
    unknown = _unknown(explained)
    if explained.rules or unknown:
        yield Heading("Rules that apply", "with their sources")
    for rule in explained.rules:
        yield Item(rule_line(rule), rule_details(rule, told), "•" if rule.counts else "◦")
    if unknown:
        yield Item(unknown, mark="?")


def _costs(explained: Explanation) -> Iterator[Block]:
    """Yields the planned cost on each backend with its rate."""
    are_supported = all(cost.is_supported for cost in explained.costs)
    yield Heading("Planned cost", "" if are_supported else "in parentheses: the unit is not known to run it")
    rows, rates = [], dict[str, list[str]]()
    for cost in explained.costs:
        interval = ""
        if (cost.low_ms, cost.high_ms) != (cost.planned_ms, cost.planned_ms):
            interval = f"{format_cost(cost.low_ms)} – {format_cost(cost.high_ms)}"
        unit = UNIT_NAMES[cost.unit] if cost.is_supported else f"({UNIT_NAMES[cost.unit]})"
        rows.append((cost.backend, unit, format_cost(cost.planned_ms), interval, cost.basis))
        if rate := "; ".join(filter(None, [cost.rate, cost.rate_source])):
            rates.setdefault(rate, []).append(cost.backend)
    columns = (
        Column("backend", style="cyan", most=11),
        Column("unit"),
        *numbers("planned cost", "interval"),
        Column("known"),
    )
    yield Table(columns, rows)
    yield from (Item(f"{', '.join(backends)}: {rate}", mark="·") for rate, backends in rates.items())


def chosen_line(explained: Explanation) -> str:
    """Where the operation runs: `runs on the Neural Engine (ane); planned cost of the function: 11.7`."""
    whole = f"planned cost of the function: {format_cost(explained.planned_ms)}"
    if explained.unit is None:
        return f"no unit is known to run it; {whole}"
    by_reason: dict[Undecided, list[str]] = {}
    for unit, why in explained.alternatives.items():
        by_reason.setdefault(why, []).append(UNIT_WORDS[unit])
    others = [f"{' or '.join(units)} ({UNDECIDED_WORDS[why]})" for why, units in by_reason.items()]
    open_ = f", or on {' or '.join(others)}" if others else ""
    return f"runs on {UNIT_WORDS[explained.unit]} ({explained.backend}){open_}; {whole}"


def path_text(path: Sequence[PathStep]) -> str:
    """A path around the operation, whose run is in brackets: `… → 49 Neural Engine → [16 CPU] → …`."""
    place = next((index for index, step in enumerate(path) if step.holds_it), 0)
    first, last = max(place - _AROUND, 0), min(place + _AROUND + 1, len(path))
    steps = [_step(step) for step in path[first:last]]
    before = ["…"] if first else []
    after = ["…"] if last < len(path) else []
    return " → ".join([*before, *steps, *after])


def _step(step: PathStep) -> str:
    text = f"{step.count} {'unknown' if step.unit is None else UNIT_NAMES[step.unit]}"
    return f"[{text}]" if step.holds_it else text


def _outcome(forced: Forced) -> str:
    if not forced.is_allowed:
        return "the setting does not allow it"
    if not forced.path:
        return "not known"
    saved = None if forced.more_s is None else _negated(forced)
    text = describe_saving(-forced.more_ms, forced.planned_ms, saved)
    others = forced.moved - 1
    along = f"; {plural(others, 'other operation')} would move too" if others > 0 else ""
    condition = "" if forced.is_supported else " (if rules let it run there)"
    return f"{text}{along}{condition}"


def _negated(forced: Forced) -> Figure | None:
    more = forced.more_s
    return None if more is None else Figure(-more.value, -more.high, -more.low, more.origin)


def rule_line(applied: AppliedRule) -> str:
    """A rule with its effect: `Neural Engine rejects it: … (ne-int32, measured)`."""
    reason = applied.reason
    effect = _EFFECTS[reason.effect]
    if not applied.counts:
        doubt = "anecdotal, not applied" if reason.confidence == "anecdotal" else "overridden"
        effect = f"{effect} ({doubt})"
    return f"{UNIT_NAMES[reason.unit]}, {effect}: {reason.text}"


def _unknown(explained: Explanation) -> str:
    """The units that no rule covers for the operation; empty if there are none."""
    units = [UNIT_NAMES[unit] for unit, support in explained.supported.items() if support == "unknown"]
    return f"{' and '.join(units)}: no rule covers this operation, so it is not placed there" if units else ""


def rule_details(applied: AppliedRule, told: set[str]) -> list[str]:
    """What to do about a rule; its id, how it is known, its source and what Core ML says.

    Args:
        applied: The rule.
        told: The ids of the rules and the advice that were shown before, to which those of this one are
            added. Of such a rule only the id is shown, and advice that is new.
    """
    reason = applied.reason
    advice = f"fix: {reason.fix}" if reason.fix and applied.counts else ""
    fix = [advice] if advice and f"{reason.rule} {advice}" not in told else []
    is_told = reason.rule in told
    told |= {reason.rule, f"{reason.rule} {advice}"}
    if is_told:
        return [*fix, f"{reason.rule}, as above"]
    message = f'; Core ML says "{reason.core_ml}"' if reason.core_ml else ""
    return [*fix, f"{reason.rule}, {reason.confidence}; {reason.source}{message}"]
