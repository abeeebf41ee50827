"""A comparison: all profiles side by side, then each subject against the first."""

from __future__ import annotations

from collections.abc import Iterator

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
    format_value,
    measured_by,
    method,
    planned_cells,
    verdict,
    verdict_lines,
    whole_rows,
)
from coremlscope.reports.document import (
    Block,
    Column,
    Folded,
    Heading,
    Hint,
    Item,
    Table,
    Text,
    Title,
    labels,
    numbers,
)
from coremlscope.reports.migration import agreement_lines, group_rows, work_lines
from coremlscope.reports.renderers import COMPARISON_RENDERERS, describe_formats
from coremlscope.reports.side_by_side import side_by_side, side_by_side_document
from coremlscope.reports.words import plural

__all__ = ["comparison_document"]

_LISTED_KINDS, _LISTED_ROWS = 8, 12


def comparison_document(comparison: Comparison) -> Iterator[Block]:
    """Yields all profiles side by side, then each subject against the first."""
    if not comparison.differences:
        yield from side_by_side_document(comparison.profiles)
        return
    names = [subject.label for subject in comparison.subjects]
    yield from (Text(line, "strong", 0) for line in verdict_lines(comparison))
    yield from side_by_side(comparison.profiles, names)
    yield Title(f"{names[0]} against {', '.join(names[1:])}")
    rows = fact_rows(comparison)
    if rows:
        yield Heading("What differs")
        yield Table((Column("", style="dim"), *map(Column, names)), rows)
    else:
        yield Text("the same model and settings")
    for difference in comparison.differences:
        if len(comparison.differences) > 1:
            yield Title(f"{names[difference.other]} against {names[0]}")
        yield from _difference(difference)
    yield Hint(f"more: {describe_formats(COMPARISON_RENDERERS)}; --fail-above 5% for CI")


def _difference(difference: Difference) -> Iterator[Block]:
    if difference.phases:
        yield Heading("Times", measured_by(difference))
        rows = [(name, *_cells(change)) for name, change in difference.phases.items()]
        yield Table((Column("", style="cyan"), *_change_columns()), rows)
        yield Text(method(difference))
        if not difference.incomparable:
            yield from _operations(difference)
    for plan in difference.plans:
        yield from _plan(plan)
    yield from _migration(difference)
    yield Text(describe_operations(difference), "")


def _change_columns(interval: str = "95 % interval") -> tuple[Column, ...]:
    return (
        Column("before", is_number=True, rank=1),
        *numbers("after", "change"),
        Column(interval, is_number=True, rank=2),
        Column("", rank=-1),
    )


def _cells(change: Change) -> tuple[str, ...]:
    return (
        format_value(change.before, change.origin),
        format_value(change.after, change.origin),
        format_ratio(change.ratio),
        format_interval(change),
        verdict(change),
    )


def _operations(difference: Difference) -> Iterator[Block]:
    """Yields measured times by kind of operation, and those that differ most."""
    rows = []
    for kind in difference.kinds:
        number = str(kind.after) if kind.before == kind.after else f"{kind.before} → {kind.after}"
        rows.append((kind.label, number, *_cells(kind.time)))
    columns = (labels("operations"), Column("count", is_number=True, rank=3), *_change_columns())
    kinds = Table(columns, rows, _LISTED_KINDS, "kind")
    yield Folded("By kind of operation", "measured by the engine's profiler, summed", (kinds,))
    telling = difference.telling_rows
    if not telling:
        yield Text("no operation's time changed by more than the noise of its measurement", "")
        return
    columns = (labels("operations"), Column("name", most=60, least=10, is_code=True), *_change_columns())
    blocks: list[Block] = [Table(columns, [_row(row) for row in telling], _LISTED_ROWS)]
    quiet = len(difference.rows) - len(telling)
    if quiet:
        blocks.append(Text(f"no change in {plural(quiet, 'other row')}"))
    yield Folded("Largest differences", "operations that run as one are one row", blocks)


def _row(row: RowChange) -> tuple[str, ...]:
    *cells, said = _cells(row.time)
    return (row.label, row.name, *cells, row.presence if row.presence != "both" else said)


def _plan(plan: PlanChange) -> Iterator[Block]:
    yield Heading(f"On {device_title(plan)}", "planned and estimated; nothing of it was measured")
    rows = [(name, *_cells(change)) for name, change in whole_rows(plan)]
    yield Table((Column("", style="cyan"), *_change_columns("interval")), rows)
    yield Text(describe_units(plan), "")
    if calibration := describe_calibration(plan):
        yield Text(calibration)
    changed = [(row.type, *_cells(row.planned)) for row in plan.types if row.planned.ratio != 1]
    if changed:
        columns = (labels("planned cost, by type"), *_change_columns("interval"))
        yield Table(columns, changed, _LISTED_KINDS, "type")
    if plan.ops:
        columns = (
            Column("type", style="cyan", most=20, rank=1),
            Column("name", most=60, least=18, is_code=True),
            Column("unit", rank=-1),
            *numbers("before", "after", ""),
        )
        ops = Table(columns, [planned_cells(op) for op in plan.ops], _LISTED_ROWS, "operation")
        yield Folded("Operations whose plan changed", f"{len(plan.ops)}, planned costs", (ops,))


def _migration(difference: Difference) -> Iterator[Block]:
    """Yields what the Core ML and Core AI models of one network share."""
    if difference.work is not None:
        yield Heading("Core ML and Core AI")
        yield from (Text(line, "") for line in work_lines(difference))
        if rows := group_rows(difference.work):
            yield Table((labels("base"), Column("other", style="cyan"), *numbers("work")), rows)
    if difference.agreement is not None:
        yield Heading("Values", "of the same inputs")
        yield from map(Item, agreement_lines(difference.agreement))
