"""Results as notebooks show them: the few numbers that people look for first."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from coremlscope.notebook import Grid, card
from coremlscope.units import format_duration, format_rate, format_share

if TYPE_CHECKING:
    from coremlscope.batch import Matrix
    from coremlscope.comparison.change import Change
    from coremlscope.comparison.profiles import Comparison
    from coremlscope.results.profile import Profile

__all__ = ["comparison_card", "matrix_card", "profile_card"]

_LISTED = 8


def profile_card(profile: Profile) -> str:
    """What a model takes."""
    model, host = profile.model, profile.host
    phases = (("compile", profile.compile), ("load", profile.load), ("predict", profile.predict))
    times = []
    for name, phase in phases:
        numbers = phase.statistics
        values = (numbers.min, numbers.median, numbers.p95, numbers.max)
        times.append((name, str(numbers.count), *map(format_duration, values)))
    estimates = [
        (
            e.device,
            e.compute_units,
            format_duration(e.latency.value),
            f"{format_duration(e.latency.low)} – {format_duration(e.latency.high)}",
        )
        for e in profile.estimates
    ]
    names = dict(zip(profile.ops.id, profile.ops.name, strict=True))
    groups = sorted(profile.groups, key=lambda group: -group.wall_s)
    slowest = [
        (
            group.label,
            names.get(group.op_ids[0], "") if group.op_ids else "",
            format_duration(group.wall_s),
            format_share(group.share),
            group.share,
        )
        for group in groups[:_LISTED]
    ]
    rate = format_rate(profile.predictions_per_s).removesuffix(" /s")
    median = format_duration(profile.predict.statistics.median)
    return card(
        PurePath(model.path).name or "model",
        f"{median} a prediction, {rate} a second, measured on {host.label}; not Core ML",
        [
            Grid("Times (measured)", ("", "runs>", "min>", "median>", "p95>", "max>"), times),
            Grid(
                "On Apple devices (estimated, not measured)",
                ("device", "setting", "estimate>", "80 % of cases>"),
                estimates,
            ),
            Grid(
                f"The slowest of {len(groups)} groups of operations (measured by the engine's profiler)",
                ("operations", "first", "time>", "share>", ""),
                slowest,
            ),
        ],
        [f"⚠ {finding.text}" for finding in profile.findings if finding.severity == "warning"],
    )


def comparison_card(comparison: Comparison) -> str:
    """What differs."""
    grids = []
    for difference in comparison.differences:
        label = comparison.subjects[difference.other].label
        title = f"{label}: " if len(comparison.differences) > 1 else ""
        columns = ("", "before>", "after>", "change>", "")
        phases = [(name, *_cells(change)) for name, change in difference.phases.items()]
        grids.append(Grid(f"{title}times (measured)", columns, phases))
        rows = [
            (f"{row.label} {row.name}", *_cells(row.time))
            for row in difference.telling_rows[:_LISTED]
            if difference.incomparable == ""
        ]
        grids.append(Grid(f"{title}largest differences (measured)", columns, rows))
        for place in difference.placements:
            figures = [("planned", place.planned)]
            if place.latency is not None:
                figures.insert(0, ("estimated", place.latency))
            named = place.before if place.before == place.after else f"{place.before} → {place.after}"
            whole = [(name, *_cells(change)) for name, change in figures]
            grids.append(Grid(f"{title}{named} (planned and estimated, not measured)", columns, whole))
    first, *others = [subject.label for subject in comparison.subjects]
    notes = [f"times not compared: {d.incomparable}" for d in comparison.differences if d.incomparable]
    differing = ", ".join(comparison.differing)
    remark = f"what differs: {differing}" if differing else "the same model, run in the same way"
    return card(f"{first} against {', '.join(others)}", remark, grids, notes)


def _cells(change: Change) -> tuple[str, str, str, str]:
    before, after = (
        "–" if value is None else format_duration(value) for value in (change.before, change.after)
    )
    ratio = "–" if change.ratio is None else f"{change.ratio - 1:+.1%}"
    return before, after, ratio, "" if change.ratio is None else change.verdict


def matrix_card(matrix: Matrix) -> str:
    """Models × settings."""
    measured = [
        (
            row.model,
            t.by,
            t.compute_units or "–",
            t.power_mode or "–",
            format_duration(t.predict.statistics.median),
            format_duration(t.predict.statistics.mean),
        )
        for row in matrix.rows
        for t in row.timings
    ]
    forecast = [
        (row.model, f"{f.device}, {f.os}", f.compute_units, format_duration(f.latency.value),
         format_duration(f.planned_s.value))
        for row in matrix.rows
        for f in row.forecasts
    ]  # fmt: skip
    return card(
        f"{len(matrix.rows)} models",
        f"{matrix.iterations} predictions each" + ("; stopped before all was done" * matrix.interrupted),
        [
            Grid("Measured", ("model", "by", "setting", "power mode", "median>", "average>"), measured),
            Grid(
                "Planned and estimated, not measured",
                ("model", "device", "setting", "estimated>", "planned>"),
                forecast,
            ),
        ],
        [f"⚠ {row.model}, {p.what}: {p.message}" for row in matrix.rows for p in row.problems],
    )
