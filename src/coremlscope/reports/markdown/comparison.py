"""Several profiles, and what differs between them, as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coremlscope.base.escaping import markdown_code as code
from coremlscope.base.escaping import markdown_text as cell
from coremlscope.describe.comparison.change import Change
from coremlscope.describe.comparison.plans import PlanChange
from coremlscope.describe.comparison.profiles import Comparison, Difference
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
from coremlscope.reports.markdown.report import details, table
from coremlscope.reports.migration import agreement_lines, group_rows, work_lines
from coremlscope.reports.terminal.side_by_side import (
    device_blocks,
    device_remarks,
    failures,
    measured_blocks,
    summary_line,
)
from coremlscope.results.profile import Profile

__all__ = ["render_markdown_comparison", "render_markdown_profiles"]

_LISTED_ROWS = 20
_CHANGE = ("before>", "after>", "change>", "95 % interval>", "")
_MARKS = {"slower": "🔺 slower", "faster": "🟢 faster"}


def render_markdown_comparison(comparison: Comparison) -> str:
    """Renders a comparison as Markdown: all profiles, then differences, times, and tables of operations."""
    labels = [subject.label for subject in comparison.subjects]
    whole = render_markdown_profiles(comparison.profiles, labels)
    if not comparison.differences:
        return whole
    blocks = [f"## {code(labels[0])} against {', '.join(map(code, labels[1:]))}"]
    rows = fact_rows(comparison)
    if rows:
        blocks.append(table(("", *labels), rows))
    else:
        blocks.append("The same model and settings.")
    for difference in comparison.differences:
        if len(comparison.differences) > 1:
            blocks.append(f"### {code(labels[difference.other])} against {code(labels[0])}")
        blocks += _difference(difference)
    answer = "".join(f"{cell(line)}\n\n" for line in verdict_lines(comparison))
    return f"{answer}{whole}\n" + "\n\n".join(blocks) + "\n"


def render_markdown_profiles(profiles: Sequence[Profile], labels: Sequence[str] = ()) -> str:
    """Renders several profiles as Markdown: measurements, a table for each device, and failures."""
    blocks = [f"## {cell(summary_line(profiles))}"]
    for block in (*measured_blocks(profiles, labels), *device_blocks(profiles, labels)):
        titles = (block.titles[0], *(f"{name}>" for name in block.titles[1:]))
        blocks += [
            f"### {cell(block.title)} ({cell(block.remark)})",
            table(titles, block.rows),
        ]
    blocks += [cell(remark) for remark in device_remarks(profiles)]
    failed = [f"- {cell(text)}" for text, _ in failures(profiles, labels)]
    if failed:
        blocks += ["### Failed", "\n".join(failed)]
    return "\n\n".join(blocks) + "\n"


def _difference(difference: Difference) -> Iterable[str]:
    if difference.phases:
        text = measured_by(difference)
        yield f"{cell(text[0].upper() + text[1:])}:"
        rows = [(name, *_cells(change)) for name, change in difference.phases.items()]
        yield table(("", *_CHANGE), rows)
        yield cell(method(difference)) if difference.incomparable else method(difference)
    if difference.phases and not difference.incomparable:
        kinds = [
            (kind.label, f"{kind.before} → {kind.after}", *_cells(kind.time)) for kind in difference.kinds
        ]
        yield details("By kind of operation", table(("operations", "count>", *_CHANGE), kinds))
        changed = [
            (row.label, code(row.name), *_cells(row.time)[:-1], _mark(row.time, row.presence))
            for row in difference.telling_rows[:_LISTED_ROWS]
        ]
        if changed:
            title = f"Operations whose time changed ({len(difference.telling_rows)})"
            yield details(title, table(("operations", "name", *_CHANGE), changed))
    for plan in difference.plans:
        yield from _plan(plan)
    if difference.work is not None:
        yield cell(". ".join(work_lines(difference)))
        if groups := group_rows(difference.work):
            yield details("Cut in another way", table(("base", "other", "work>"), groups))
    if difference.agreement is not None:
        yield "\n".join(f"- {cell(line)}" for line in agreement_lines(difference.agreement))
    yield cell(describe_operations(difference))


def _plan(plan: PlanChange) -> Iterable[str]:
    yield f"On {cell(device_title(plan))}, planned and estimated; nothing of it was measured:"
    titles = tuple(title.removeprefix("95 % ") for title in _CHANGE)
    yield table(("", *titles), [(name, *_cells(change)) for name, change in whole_rows(plan)])
    yield cell(describe_units(plan))
    if calibration := describe_calibration(plan):
        yield cell(calibration)
    if plan.ops:
        rows = [
            (cells[0], code(cells[1]), *cells[2:]) for cells in map(planned_cells, plan.ops[:_LISTED_ROWS])
        ]
        titles = ("operation", "name", "unit", "before>", "after>", "change>")
        yield details(f"Operations whose plan changed ({len(plan.ops)})", table(titles, rows))


def _cells(change: Change) -> tuple[str, ...]:
    return (
        seconds(change.before),
        seconds(change.after),
        format_ratio(change.ratio),
        format_interval(change),
        _mark(change, "both"),
    )


def _mark(change: Change, presence: str) -> str:
    if presence != "both":
        return presence
    said = verdict(change)
    return _MARKS.get(said, said)
