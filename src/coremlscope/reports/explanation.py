"""The parts of an explanation of operations, as texts that the console and Markdown share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coremlscope.base.figures import Figure
from coremlscope.base.units import format_duration
from coremlscope.devices.unit import UNIT_WORDS
from coremlscope.reports.words import DRAWN_RATES, UNDECIDED_WORDS, UNIT_NAMES, plural
from coremlscope.results.explanation import AppliedRule, Explanation, Explanations, Forced, PathStep
from coremlscope.results.plan import Undecided, describe_saving

__all__ = [
    "COST_TITLES",
    "chosen_line",
    "cost_rows",
    "forced_lines",
    "left_out_line",
    "path_text",
    "rule_details",
    "rule_line",
    "unknown_line",
]

COST_TITLES = ("backend", "unit", "planned>", "interval>", "known", "rate")
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
}


def chosen_line(explained: Explanation) -> str:
    """Where the operation runs: `runs on the Neural Engine (ane); the function is planned at 11.7 ms`."""
    whole = f"the function is planned at {format_duration(explained.planned_ms / 1e3)}"
    if explained.unit is None:
        return f"no unit is known to run it; {whole}"
    by_reason: dict[Undecided, list[str]] = {}
    drawn = []
    for unit, why in explained.alternatives.items():
        if why == "rates" and unit in explained.draw_share:
            drawn.append(f"{UNIT_WORDS[unit]} in {explained.draw_share[unit] * 100:.0f} %")
        else:
            by_reason.setdefault(why, []).append(UNIT_WORDS[unit])
    others = [f"{' or '.join(units)} ({UNDECIDED_WORDS[why]})" for why, units in by_reason.items()]
    if drawn:
        others.append(f"{' or '.join(drawn)} of plans with {DRAWN_RATES}")
    open_ = f", or on {' or '.join(others)}" if others else ""
    return f"runs on {UNIT_WORDS[explained.unit]} ({explained.backend}){open_}; {whole}"


def cost_rows(explained: Explanation) -> list[tuple[str, ...]]:
    """The planned cost on each backend with its rate; see `COST_TITLES`."""
    rows: list[tuple[str, ...]] = []
    for cost in explained.costs:
        interval = ""
        if (cost.low_ms, cost.high_ms) != (cost.planned_ms, cost.planned_ms):
            interval = f"{format_duration(cost.low_ms / 1e3)} – {format_duration(cost.high_ms / 1e3)}"
        unit = UNIT_NAMES[cost.unit] if cost.is_supported else f"({UNIT_NAMES[cost.unit]})"
        rate = "; ".join(filter(None, [cost.rate, cost.rate_source]))
        rows.append((cost.backend, unit, format_duration(cost.planned_ms / 1e3), interval, cost.basis, rate))
    return rows


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


def forced_lines(explained: Explanation) -> Iterator[tuple[str, str]]:
    """For each unit other than the chosen one: what the plan would be, and its path."""
    for forced in explained.forced:
        if not forced.is_chosen:
            yield f"{UNIT_NAMES[forced.unit]}: {_outcome(forced)}", path_text(forced.path)


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


def unknown_line(explained: Explanation) -> str:
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


def left_out_line(found: Explanations) -> str:
    """How many more operations the name selects; empty where there are none."""
    if not found.left_out:
        return ""
    return f"and {plural(found.left_out, 'cheaper operation')} that {found.wanted!r} selects"
