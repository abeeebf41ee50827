"""A comparison for the console."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.describe.comparison.change import Change
from coremlscope.describe.comparison.plans import PlanChange
from coremlscope.describe.comparison.profiles import Comparison, Difference, RowChange
from coremlscope.reports.difference import (
    describe_calibration,
    describe_operations,
    describe_units,
    device_title,
    fact_rows,
    format_interval,
    format_ratio,
    measured_by,
    method,
    planned_cells,
    seconds,
    verdict,
    verdict_lines,
    whole_rows,
)
from coremlscope.reports.migration import agreement_lines, group_rows, work_lines
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.terminal.side_by_side import render_side_by_side, show_side_by_side
from coremlscope.reports.words import plural

__all__ = ["render_comparison"]

_LISTED_KINDS, _LISTED_ROWS = 8, 12
_WIDE = 100


def render_comparison(comparison: Comparison, *, width: int = 100, color: bool = False) -> str:
    """A comparison as text: all profiles side by side, then each subject against the first."""
    if not comparison.differences:
        return render_side_by_side(comparison.profiles, width=width, color=color)
    screen = Screen(width, color)
    labels = [subject.label for subject in comparison.subjects]
    for line in verdict_lines(comparison):
        screen.line(line, "bold")
    screen.line()
    show_side_by_side(screen, comparison.profiles, labels)
    screen.line()
    screen.title(labels[0], f"  against {', '.join(labels[1:])}")
    _show_facts(screen, comparison)
    for difference in comparison.differences:
        if len(comparison.differences) > 1:
            screen.line()
            screen.title(labels[difference.other], f"  against {labels[0]}")
        _show_difference(screen, difference)
    screen.line()
    screen.line("more: -o report.html, or .md, .json; --fail-above 5% for CI", "dim")
    return screen.text


def _show_facts(screen: Screen, comparison: Comparison) -> None:
    rows = fact_rows(comparison)
    if not rows:
        screen.line("the same model and settings", "dim", indent=2)
        return
    screen.heading("What differs")
    columns = [Column("", style="dim"), *(Column(subject.label) for subject in comparison.subjects)]
    screen.table(columns, rows)


def _show_difference(screen: Screen, difference: Difference) -> None:
    if difference.phases:
        screen.heading("Times", measured_by(difference))
        columns = _columns(Column("", style="cyan"))
        screen.table(columns, [(name, *_cells(change)) for name, change in difference.phases.items()])
        screen.line(method(difference), "dim", indent=2)
    if not difference.incomparable and difference.phases:
        _show_kinds(screen, difference)
        _show_rows(screen, difference)
    for plan in difference.plans:
        _show_plan(screen, plan)
    _show_migration(screen, difference)
    screen.line()
    screen.line(describe_operations(difference), indent=2)


def _show_migration(screen: Screen, difference: Difference) -> None:
    if difference.work is not None:
        screen.heading("Core ML and Core AI")
        for line in work_lines(difference):
            screen.line(line, indent=2)
        columns = (
            Column("base", style="cyan"),
            Column("other", style="cyan"),
            Column("work", is_number=True),
        )
        if rows := group_rows(difference.work):
            screen.table(list(columns), rows)
    if difference.agreement is not None:
        screen.heading("Values", "of the same inputs")
        for line in agreement_lines(difference.agreement):
            screen.bullet("•", line)


def _show_plan(screen: Screen, plan: PlanChange) -> None:
    screen.heading(f"On {device_title(plan)}", "planned and estimated; nothing of it was measured")
    rows = [(name, *_cells(change)) for name, change in whole_rows(plan)]
    screen.table(_columns(Column("", style="cyan"), interval="interval"), rows)
    screen.line(describe_units(plan), indent=2)
    if calibration := describe_calibration(plan):
        screen.line(calibration, "dim", indent=2)
    changed = [row for row in plan.types if row.planned.ratio != 1][:_LISTED_KINDS]
    if changed:
        screen.line()
        screen.table(
            _columns(Column("planned, by type", style="cyan", most=max(14, screen.width - 58))),
            [(row.type, *_cells(row.planned)) for row in changed],
        )
    if plan.ops:
        screen.line()
        columns = [
            Column("planned, by op", style="cyan", most=20 if screen.width >= _WIDE else 14),
            Column("name", most=max(18, screen.width - 64)),
            Column("unit"),
            Column("before", is_number=True),
            Column("after", is_number=True),
            Column("", is_number=True),
        ]
        screen.table(columns, [planned_cells(op) for op in plan.ops[:_LISTED_ROWS]])
        _rest(screen, len(plan.ops) - _LISTED_ROWS, "operation")


def _columns(*first: Column, interval: str = "95 % interval") -> list[Column]:
    return [
        *first,
        Column("before", is_number=True, rank=1),
        Column("after", is_number=True),
        Column("change", is_number=True),
        Column(interval, is_number=True, rank=2),
        Column("", rank=-1),
    ]


def _cells(change: Change) -> tuple[str, ...]:
    return (
        seconds(change.before),
        seconds(change.after),
        format_ratio(change.ratio),
        format_interval(change),
        verdict(change),
    )


def _show_kinds(screen: Screen, difference: Difference) -> None:
    screen.heading("By kind of operation", "measured by the engine's profiler, summed")
    rows = []
    for kind in difference.kinds[:_LISTED_KINDS]:
        number = str(kind.after) if kind.before == kind.after else f"{kind.before} → {kind.after}"
        rows.append((kind.label, number, *_cells(kind.time)))
    is_wide = screen.width >= _WIDE
    label = Column("operations", style="cyan", most=max(14, screen.width - (66 if is_wide else 58)))
    if is_wide:
        screen.table(_columns(label, Column("count", is_number=True)), rows)
    else:
        screen.table(_columns(label), [(first, *rest) for first, _, *rest in rows])
    _rest(screen, len(difference.kinds) - _LISTED_KINDS, "kind")


def _show_rows(screen: Screen, difference: Difference) -> None:
    telling = difference.telling_rows
    if not telling:
        screen.line()
        screen.line("no operation's time changed by more than the noise of its measurement", indent=2)
        return
    screen.heading("Largest differences", "operations that run as one are one row")
    columns = _columns(
        Column("operations", style="cyan", most=max(16, (screen.width - 58) // 2), least=14),
        Column("name", most=max(10, (screen.width - 58) // 2)),
    )
    screen.table(columns, [_row(row) for row in telling[:_LISTED_ROWS]])
    _rest(screen, len(telling) - _LISTED_ROWS, "row")
    quiet = len(difference.rows) - len(telling)
    if quiet:
        screen.line(f"no change in {plural(quiet, 'other row')}", "dim", indent=2)


def _row(row: RowChange) -> Sequence[str]:
    cells = _cells(row.time)
    return (row.label, row.name, *cells[:-1], row.presence if row.presence != "both" else cells[-1])


def _rest(screen: Screen, number: int, noun: str) -> None:
    if number > 0:
        screen.line(f"and {plural(number, f'more {noun}')}", "dim", indent=2)
