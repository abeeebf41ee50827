"""A recorded program as a card for notebooks."""

from __future__ import annotations

from coremlscope.render.notebook import Grid, card
from coremlscope.render.program.terminal import place_of
from coremlscope.render.words import plural
from coremlscope.results.aggregate import aggregate
from coremlscope.results.trace import Trace
from coremlscope.units import format_duration

__all__ = ["trace_card"]

_MOST_ROWS = 8


def trace_card(trace: Trace) -> str:
    """Renders the mistakes and the largest totals of a recorded program."""
    rows = [
        (
            row.model or "–",
            row.kind,
            f"{row.count:,}",
            format_duration(row.total_s),
            format_duration(row.median_s),
        )
        for row in aggregate(trace)[:_MOST_ROWS]
    ]
    mistakes = [(place_of(trace, m) or "–", m.title, m.fix) for m in trace.mistakes]
    return card(
        " ".join(trace.command) or "Recorded program",
        f"{format_duration(trace.duration_s)}, {plural(len(trace.mistakes), 'mistake')} found",
        [
            Grid("Mistakes", ("line", "mistake", "fix"), mistakes),
            Grid("Totals, measured", ("model", "event", "count>", "total>", "median>"), rows),
        ],
    )
