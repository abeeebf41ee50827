"""A recorded program as Markdown."""

from __future__ import annotations

from coremlscope.base.escaping import markdown_text as cell
from coremlscope.base.units import format_duration
from coremlscope.reports.markdown.report import table
from coremlscope.reports.program.terminal import (
    mistakes_note,
    mistakes_title,
    place_of,
    saving,
    summary_pairs,
)
from coremlscope.results.aggregate import aggregate, total_operations
from coremlscope.results.trace import Trace

__all__ = ["render_program_markdown"]


def render_program_markdown(trace: Trace) -> str:
    """Renders a recorded program as Markdown: facts, mistakes, totals."""
    blocks = [
        f"## {cell(' '.join(trace.command) or 'Recorded program')}, {format_duration(trace.duration_s)}"
    ]
    blocks.append("\n".join(f"- {label}: {cell(value)}" for label, value in summary_pairs(trace) if value))
    note = mistakes_note(trace)
    blocks.append(f"### {mistakes_title(trace)}{f' ({note})' if note else ''}")
    for mistake in trace.mistakes:
        place = place_of(trace, mistake)
        where = f" ({cell(place)})" if place else ""
        blocks.append(
            f"- **{cell(mistake.title)}**{where}. {cell(mistake.evidence)}"
            f" {cell(mistake.fix)}{saving(mistake)}"
        )
    rows = [
        (
            row.model or "–",
            row.kind,
            f"{row.count:,}",
            *(
                format_duration(value)
                for value in (row.total_s, row.mean_s, row.median_s, row.p99_s, row.max_s)
            ),
        )
        for row in aggregate(trace)
    ]
    if rows:
        titles = ("model", "event", "count>", "total>", "mean>", "median>", "p99>", "max>")
        blocks += ["### Totals (measured)", table(titles, rows)]
    operations = [
        (
            row.model or "–",
            row.operation,
            f"{row.count:,}",
            format_duration(row.total_s),
            format_duration(row.median_s),
            f"{100 * row.share:.0f} %",
        )
        for row in total_operations(trace)
    ]
    if operations:
        names = ("model", "operation", "count>", "total>", "median>", "share>")
        blocks += ["### Operations (measured by the engine's profiler)", table(names, operations)]
    return "\n\n".join(blocks) + "\n"
