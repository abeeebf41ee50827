"""Differences in words and numbers, for every format of a comparison."""

from __future__ import annotations

import math

from coremlscope.comparison.change import Change
from coremlscope.comparison.plans import OpPlacement, PlacementChange
from coremlscope.comparison.profiles import Comparison, Difference
from coremlscope.devices.unit import ComputeUnit
from coremlscope.render.words import plural
from coremlscope.units import format_bytes, format_count, format_duration

__all__ = [
    "describe_operations",
    "describe_units",
    "fact_rows",
    "format_interval",
    "format_ratio",
    "method",
    "placed_cells",
    "seconds",
    "verdict",
    "whole_rows",
]

_UNITS: dict[ComputeUnit, str] = {"cpu": "CPU", "gpu": "GPU", "neural_engine": "NE"}
_FORMATS = {"parameters": format_count, "FLOPs": format_count, "weight bytes": format_bytes}


def seconds(value: float | None) -> str:
    """A duration, or a dash where there is none."""
    return "–" if value is None else format_duration(value)


def format_ratio(ratio: float | None) -> str:
    """How much more or less: `+5.0 %`, `−27.3 %`, `×3.2` where it is more than twice."""
    if ratio is None:
        return "–"
    if math.isinf(ratio):
        return "× ∞"
    if ratio >= 2:
        return f"×{ratio:.3g}"
    percent = f"{abs(ratio - 1) * 100:.1f}"
    sign = "±" if percent == "0.0" else "+" if ratio > 1 else "−"
    return f"{sign}{percent} %"


def format_interval(change: Change) -> str:
    """The interval of a ratio; empty where there is none."""
    if change.low is None or change.high is None or change.low == change.high:
        return ""
    ends = [format_ratio(change.low), format_ratio(change.high)]
    if all(end.endswith(" %") for end in ends):
        ends[0] = ends[0].removesuffix(" %")
    return " … ".join(ends)


def verdict(change: Change) -> str:
    """What the change amounts to, in a word."""
    return "" if change.ratio is None else change.verdict


def fact_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """The facts that differ: the name, then what each subject has."""
    rows = []
    for name in comparison.differing:
        texts = [subject.facts.get(name, "–") for subject in comparison.subjects]
        if name in _FORMATS:
            texts = [_FORMATS[name](int(text)) if text.isdigit() else text for text in texts]
        rows.append((name, *texts))
    return rows


def method(difference: Difference) -> str:
    """How it was found out whether times differ, in sentences."""
    if difference.incomparable:
        return f"not compared: {difference.incomparable}"
    turns = (
        "predictions were timed in turns, and the interval is that of the ratios of the rounds"
        if difference.in_turns
        else "intervals of the two medians that were measured at different times: a drift of the machine"
        " between them is not in the interval; comparing models themselves times them in turns"
    )
    return f"{turns}; `no change` where it holds 0, `unclear` where there are too few samples"


def describe_operations(difference: Difference) -> str:
    """How many operations correspond: `103 operations correspond, 2 of them renamed; 1 added, 4 removed`."""
    text = f"{plural(difference.matched, 'operation')} correspond"
    text = text if difference.matched != 1 else "1 operation corresponds"
    if difference.renamed:
        text += f", {difference.renamed} of them renamed"
    changes = []
    for word, ids in (("added", difference.added), ("removed", difference.removed)):
        if ids:
            changes.append(f"{len(ids)} {word} (such as {ids[0]})" if len(ids) > 1 else f"{ids[0]} {word}")
    return f"{text}; {', '.join(changes)}" if changes else text


def whole_rows(placement: PlacementChange) -> list[tuple[str, Change]]:
    """The figures of a whole prediction: each with what it is."""
    rows = [] if placement.latency is None else [("estimated", placement.latency)]
    return [*rows, ("planned", placement.planned)]


def describe_units(placement: PlacementChange) -> str:
    """Which units run how many: `operations: NE 98 → 90, CPU 7 → 15; changes of unit: 4`."""
    units = [
        f"{_UNITS[unit]} {before}" if before == after else f"{_UNITS[unit]} {before} → {after}"
        for unit, (before, after) in placement.units.items()
    ]
    before, after = placement.switches
    switches = f"{before} → {after}" if before != after else str(after)
    moved = f"; {plural(placement.moved, 'operation')} moved" if placement.moved else ""
    return f"operations: {', '.join(units)}{moved}; changes of unit: {switches}"


def placed_cells(op: OpPlacement) -> tuple[str, ...]:
    """One operation: type, name, units, planned costs and their change."""
    if not op.before or not op.after:
        unit = _unit(op.unit_after if op.after else op.unit_before)
        last = "added" if op.after else "removed"
    else:
        before, after = _unit(op.unit_before), _unit(op.unit_after)
        unit = before if before == after else f"{before} → {after}"
        last = format_ratio(op.planned.ratio)
    return (op.type, op.name, unit, seconds(op.planned.before), seconds(op.planned.after), last)


def _unit(unit: ComputeUnit | None) -> str:
    return "unknown" if unit is None else _UNITS[unit]
