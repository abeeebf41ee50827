"""A comparison for the console."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.comparison.change import Change
from coremlscope.comparison.plans import PlacementChange
from coremlscope.comparison.profiles import Comparison, Difference, RowChange
from coremlscope.render.difference import (
    describe_operations,
    describe_units,
    fact_rows,
    format_interval,
    format_ratio,
    method,
    placed_cells,
    seconds,
    verdict,
    whole_rows,
)
from coremlscope.render.terminal.page import Column, Page
from coremlscope.render.words import plural

__all__ = ["render_comparison"]

_LISTED_KINDS, _LISTED_ROWS = 8, 12
_WIDE = 100


def render_comparison(comparison: Comparison, *, width: int = 100, color: bool = False) -> str:
    """A comparison as text: each subject against the first."""
    page = Page(width, color)
    labels = [subject.label for subject in comparison.subjects]
    page.title(labels[0], f"  against {', '.join(labels[1:])}")
    _show_facts(page, comparison)
    for difference in comparison.differences:
        if len(comparison.differences) > 1:
            page.line()
            page.title(labels[difference.other], f"  against {labels[0]}")
        _show_difference(page, difference)
    page.line()
    page.line("more: -o report.html, or .md, .json; --fail-above 5% for CI", "dim")
    return page.text


def _show_facts(page: Page, comparison: Comparison) -> None:
    rows = fact_rows(comparison)
    if not rows:
        page.line("the same model, run in the same way", "dim", indent=2)
        return
    page.heading("What differs")
    most = max(12, (page.width - 20) // len(comparison.subjects) - 2)
    columns = [Column("", style="dim"), *(Column(s.label, most=most) for s in comparison.subjects)]
    page.table(columns, rows)


def _show_difference(page: Page, difference: Difference) -> None:
    if difference.phases:
        page.heading("Times", "measured on this host's processor, medians; not Core ML")
        columns = _columns(Column("", style="cyan"))
        page.table(columns, [(name, *_cells(change)) for name, change in difference.phases.items()])
        page.line(method(difference), "dim", indent=2)
    if not difference.incomparable and difference.phases:
        _show_kinds(page, difference)
        _show_rows(page, difference)
    for placement in difference.placements:
        _show_placement(page, placement)
    page.line()
    page.line(describe_operations(difference), indent=2)


def _show_placement(page: Page, placement: PlacementChange) -> None:
    same = placement.before == placement.after
    title = placement.before if same else f"{placement.before} → {placement.after}"
    page.heading(f"On {title}", "planned and estimated; nothing of it was measured")
    rows = [(name, *_cells(change)) for name, change in whole_rows(placement)]
    page.table(_columns(Column("", style="cyan"), interval="interval"), rows)
    page.line(describe_units(placement), indent=2)
    changed = [row for row in placement.types if row.planned.ratio != 1][:_LISTED_KINDS]
    if changed:
        page.line()
        page.table(
            _columns(Column("planned, by type", style="cyan", most=max(14, page.width - 58))),
            [(row.type, *_cells(row.planned)) for row in changed],
        )
    if placement.ops:
        page.line()
        columns = [
            Column("planned, by op", style="cyan", most=20 if page.width >= _WIDE else 14),
            Column("name", most=max(18, page.width - 64)),
            Column("unit"),
            Column("before", is_number=True),
            Column("after", is_number=True),
            Column("", is_number=True),
        ]
        page.table(columns, [placed_cells(op) for op in placement.ops[:_LISTED_ROWS]])
        _rest(page, len(placement.ops) - _LISTED_ROWS, "operation")


def _columns(*first: Column, interval: str = "95 % interval") -> list[Column]:
    return [
        *first,
        Column("before", is_number=True),
        Column("after", is_number=True),
        Column("change", is_number=True),
        Column(interval, is_number=True),
        Column(""),
    ]


def _cells(change: Change) -> tuple[str, ...]:
    return (
        seconds(change.before),
        seconds(change.after),
        format_ratio(change.ratio),
        format_interval(change),
        verdict(change),
    )


def _show_kinds(page: Page, difference: Difference) -> None:
    page.heading("By kind of operation", "measured by the engine's profiler, summed")
    rows = []
    for kind in difference.kinds[:_LISTED_KINDS]:
        number = str(kind.after) if kind.before == kind.after else f"{kind.before} → {kind.after}"
        rows.append((kind.label, number, *_cells(kind.time)))
    is_wide = page.width >= _WIDE
    label = Column("operations", style="cyan", most=max(14, page.width - (66 if is_wide else 58)))
    if is_wide:
        page.table(_columns(label, Column("count", is_number=True)), rows)
    else:
        page.table(_columns(label), [(first, *rest) for first, _, *rest in rows])
    _rest(page, len(difference.kinds) - _LISTED_KINDS, "kind")


def _show_rows(page: Page, difference: Difference) -> None:
    telling = difference.telling_rows
    if not telling:
        page.line()
        page.line("no operation's time changed by more than the noise of its measurement", indent=2)
        return
    page.heading("Largest differences", "operations that run as one are one row")
    columns = _columns(
        Column("operations", style="cyan", most=max(12, (page.width - 58) // 2)),
        Column("name", most=max(10, (page.width - 58) // 2)),
    )
    page.table(columns, [_row(row) for row in telling[:_LISTED_ROWS]])
    _rest(page, len(telling) - _LISTED_ROWS, "row")
    quiet = len(difference.rows) - len(telling)
    if quiet:
        page.line(f"no change in {plural(quiet, 'other row')}", "dim", indent=2)


def _row(row: RowChange) -> Sequence[str]:
    cells = _cells(row.time)
    return (row.label, row.name, *cells[:-1], row.presence if row.presence != "both" else cells[-1])


def _rest(page: Page, number: int, noun: str) -> None:
    if number > 0:
        page.line(f"and {plural(number, f'more {noun}')}", "dim", indent=2)
