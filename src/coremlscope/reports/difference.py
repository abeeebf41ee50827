"""Texts and numbers on differences, for every format of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from coremlscope.base.units import format_bytes, format_cost, format_count, format_duration, format_ratio
from coremlscope.devices.unit import SETTING_WORDS
from coremlscope.model.ir import kind_name
from coremlscope.reports.document import Block, Column, Conclusion, Table, Text
from coremlscope.reports.figures import milliseconds
from coremlscope.reports.words import SHORT_UNIT_NAMES, describe_own, plural, unit_name

if TYPE_CHECKING:
    from coremlscope.base.figures import Origin
    from coremlscope.describe.comparison.change import Change
    from coremlscope.describe.comparison.plans import PlanChange, PlannedOpChange
    from coremlscope.describe.comparison.profiles import Comparison, Difference
    from coremlscope.results.answer import Answer, PairVerdict, SettingChoice

_FORMATS: Mapping[str, Callable[[str], str]] = {
    "kind": kind_name,
    "parameters": lambda text: format_count(int(text)),
    "FLOPs": lambda text: format_count(int(text)),
    "weight bytes": lambda text: format_bytes(int(text)),
}


def format_value(value: float | None, origin: Origin) -> str:
    """Formats a duration, a planned cost without a unit of time, or a dash if there is none."""
    if origin == "planned":
        return format_cost(None if value is None else value * 1e3)
    return "–" if value is None else format_duration(value)


def format_interval(change: Change) -> str:
    """Formats the interval of a ratio; empty if there is none."""
    if change.low is None or change.high is None or change.low == change.high:
        return ""
    ends = [format_ratio(change.low), format_ratio(change.high)]
    if all(end.endswith(" %") for end in ends):
        ends[0] = ends[0].removesuffix(" %")
    return " … ".join(ends)


def verdict(change: Change) -> str:
    """Formats the verdict of a change; empty if nothing was compared."""
    return "" if change.ratio is None else change.verdict


def conclude_comparison(comparison: Comparison) -> list[Conclusion]:
    """Returns the answer first: whether each subject is faster than the base, here and on devices.

    For devices and settings of one model: how fast it is on each device at best.
    """
    if len(comparison.profiles) == 1 and (best := _conclude_settings(comparison.profiles[0].answers)):
        return [best]
    labels = [subject.label for subject in comparison.subjects]
    found = [_conclude_measured(comparison, one, labels) for one in comparison.differences]
    found += [_conclude_estimated(one) for one in comparison.differences]
    return [one for one in found if one is not None]


#: What a comparison finds, the worst first, with the tone of each.
_TONES: Mapping[str, Literal["kept", "doubt", "wrong"]] = {
    "unknown": "doubt",
    "unclear": "doubt",
    "slower": "doubt",
    "no change": "kept",
    "faster": "kept",
}


def _conclude_settings(answers: Sequence[Answer]) -> Conclusion | None:
    """Returns the best of each device, the fastest first, after what goes wrong; None if none is known."""
    best: dict[tuple[str, str], SettingChoice] = {}
    for answer in answers:
        if answer.best is not None:
            best.setdefault((answer.device, answer.os), answer.best)
    if not best:
        return None
    rows = sorted(best.items(), key=lambda row: row[1].latency.value)
    told = [
        f"{format_duration(one.latency.value)} on {device} with {SETTING_WORDS[one.compute_units]}"
        for (device, _), one in rows
    ]
    hazards = dict.fromkeys(one.text for answer in answers if answer.is_hazardous for one in answer.hazards)
    text = f"{'. '.join((*hazards, 'Estimated at best'))}: {', '.join(told)}"
    if hazards:
        return Conclusion("wrong", "hazard", text)
    is_sure = all(one.trust.certainty == "likely" for one in answers)
    return Conclusion("kept" if is_sure else "doubt", "likely" if is_sure else "unclear", text)


def _conclude_estimated(difference: Difference) -> Conclusion | None:
    """Returns whether a subject is estimated to be faster; None if nothing is estimated."""
    if not difference.answer:
        return None
    pairs = [one for one in difference.estimated if one.is_best] or difference.estimated
    word = next((word for word in _TONES for one in pairs if one.verdict == word), "unknown")
    is_wrong = any(one.hazards for one in pairs)
    return Conclusion(
        "wrong" if is_wrong else _TONES[word], "hazard" if is_wrong else word, difference.answer
    )


def _conclude_measured(
    comparison: Comparison, difference: Difference, labels: Sequence[str]
) -> Conclusion | None:
    """Returns whether a subject was measured to be faster; None if it is not known."""
    change = difference.phases.get("predict")
    if change is None or change.ratio is None:
        return None
    base, other = (comparison.subjects[place] for place in (difference.base, difference.other))
    # The times of a model that was measured next to itself differ by noise.
    is_same = difference.interleaved and (base.path, base.facts) == (other.path, other.facts)
    word = "no change, it is the same model" if is_same else change.verdict
    after, before = (format_value(one, "measured") for one in (change.after, change.before))
    times = f"{after} instead of {before}" + ("" if is_same else f" ({format_ratio(change.ratio)})")
    names = f"{labels[difference.other]} against {labels[difference.base]}"
    text = f"{names}: {word}, {times}, measured by {difference.measured[0]}."
    verdict = "no change" if is_same else change.verdict
    return Conclusion(_TONES[verdict], verdict, text)


def pair_table(differences: Sequence[Difference], names: Sequence[str]) -> Iterator[Block]:
    """Yields the rows that sentences on estimates follow from: each model at its best on each device."""
    pairs = [(one, pair) for one in differences for pair in one.estimated if pair.is_best]
    if not pairs:
        return
    is_one = len(differences) == 1
    columns = (
        Column("device", style="cyan", most=24, least=17),
        Column("" if is_one else "model", most=24, least=10),
        Column(names[0] if is_one else "base", most=20, least=12),
        Column(names[1] if is_one else "its best", most=20, least=12),
        Column("change", is_number=True),
        Column("", least=6),
    )
    rows = [
        (pair.device, "" if is_one else names[one.other], *_sides(pair), pair.verdict) for one, pair in pairs
    ]
    yield Table(columns, rows)
    yield Text("milliseconds with the best setting of each; change with its 80 % interval; not measured")


def _sides(pair: PairVerdict) -> tuple[str, str, str]:
    """The two rows of a pair, and the change."""
    at_least = "≥ " if pair.ratio is None else ""
    before, after = (
        "–"
        if one is None
        else f"{at_least}{milliseconds(one.latency.value)}  {SETTING_WORDS[one.compute_units]}"
        for one in (pair.before, pair.after)
    )
    return before, after, format_pair_ratio(pair)


def format_pair_ratio(pair: PairVerdict) -> str:
    """Formats the change of a pair with its interval; a dash where a latency is not whole."""
    ratio = pair.ratio
    if ratio is None or ratio.low == ratio.high:
        return format_ratio(None if ratio is None else ratio.value)
    return f"{format_ratio(ratio.value)} ({format_ratio(ratio.low)} … {format_ratio(ratio.high)})"


def fact_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Returns the facts that differ: the name, then the value of each subject."""
    rows = []
    for name in comparison.differing:
        shown = _FORMATS.get(name, str)
        facts = [subject.facts.get(name) for subject in comparison.subjects]
        rows.append((name, *("–" if fact is None else shown(fact) for fact in facts)))
    return rows


def measured_by(difference: Difference) -> str:
    """Describes the source of the times: the labels of the measurements."""
    return f"measured by {' and '.join(dict.fromkeys(difference.measured))}, medians"


def method(difference: Difference) -> str:
    """Describes how times were compared."""
    if difference.incomparable:
        return f"not compared: {difference.incomparable}"
    source = (
        "predictions were timed in interleaved rounds, and the interval is that of the rounds' ratios"
        if difference.interleaved
        else "the interval follows from those of the two medians, which were measured at different times: a"
        " drift of the machine between them is not part of it; comparing models instead of profiles"
        " interleaves their predictions"
    )
    return f"{source}; `unclear`: it holds both a gain and a loss, or there are too few samples"


def describe_operations(difference: Difference) -> str:
    """Counts operations: `53 operations correspond, 2 of them renamed; 1 added; by type: cast 1 → 2`."""
    text = f"{plural(difference.matched, 'operation')} correspond"
    text = text if difference.matched != 1 else "1 operation corresponds"
    if difference.renamed:
        all_of_them = "all renamed" if difference.matched > 1 else "renamed"
        is_whole = difference.renamed == difference.matched
        text += f", {all_of_them if is_whole else f'{difference.renamed} of them renamed'}"
    changes = []
    before, after = _names(difference)
    for word, ids, names in (("added", difference.added, after), ("removed", difference.removed, before)):
        if ids:
            first = next((names[one] for one in ids if one in names), ids[0])
            changes.append(f"{len(ids)} {word} (such as {first})" if len(ids) > 1 else f"{first} {word}")
    text = f"{text}; {', '.join(changes) or 'none added or removed'}"
    types = ", ".join(f"{name} {a} → {b}" for name, (a, b) in difference.types.items())
    text = f"{text}; by type: {types}" if types else text
    return f"{text}; Apple's compiler: {', '.join(difference.compiled)}" if difference.compiled else text


def _names(difference: Difference) -> tuple[dict[str, str], dict[str, str]]:
    """Names of either side's operations by their ids, as far as rows of the difference have them."""
    planned = [op for plan in difference.plans for op in plan.ops]
    before = {op.before: op.name for op in planned if op.before and op.name and not op.after}
    after = {op.after: op.name for op in planned if op.after and op.name}
    for row in difference.rows:
        before.update((id_, row.name) for id_ in row.before[:1] if row.name and not row.after)
        after.update((id_, row.name) for id_ in row.after[:1] if row.name)
    return before, after


def device_title(plan: PlanChange) -> str:
    """Names the devices and settings of the two plans: `M1, all → M1, cpu_only`."""
    return plan.before if plan.before == plan.after else f"{plan.before} → {plan.after}"


def describe_units(plan: PlanChange) -> str:
    """Counts operations by unit: `operations: NE 98 → 90, CPU 7 → 15; changes of unit: 4`."""
    units = [f"{SHORT_UNIT_NAMES[unit]} {_both(*counts)}" for unit, counts in plan.units.items()]
    added = f", {_both(*plan.inserted)} of them added by Core ML" if any(plan.inserted) else ""
    moved = f"; {plural(plan.moved, 'operation')} moved" if plan.moved else ""
    return f"operations: {', '.join(units)}{added}{moved}; changes of unit: {_both(*plan.switches)}"


def describe_calibration(plan: PlanChange) -> str:
    """Describes which of the user's own measurements the estimates use; empty if they use none."""
    if not any(plan.own):
        return ""
    texts = ["from published latencies alone" if own is None else describe_own(own) for own in plan.own]
    if plan.own[0] == plan.own[1]:
        return f"† estimates {texts[0]}"
    return f"† estimates: {plan.before} {texts[0]}; then {plan.after} {texts[1]}"


def _both(before: int, after: int) -> str:
    return str(after) if before == after else f"{before} → {after}"


def planned_cells(op: PlannedOpChange) -> tuple[str, ...]:
    """Returns one operation: type, name, units, planned costs and their change."""
    if not op.before or not op.after:
        unit = unit_name(op.unit_after if op.after else op.unit_before)
        last = "added" if op.after else "removed"
    else:
        before, after = unit_name(op.unit_before), unit_name(op.unit_after)
        unit = before if before == after else f"{before} → {after}"
        last = format_ratio(op.planned.ratio)
    return (
        op.type,
        op.name,
        unit,
        *(format_value(value, "planned") for value in (op.planned.before, op.planned.after)),
        last,
    )
