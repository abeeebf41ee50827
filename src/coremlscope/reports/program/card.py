"""A recorded program as a card for notebooks."""

from __future__ import annotations

from coremlscope.base.units import format_duration
from coremlscope.reports.notebook import Grid, card
from coremlscope.reports.program.lanes import text_lanes
from coremlscope.reports.program.terminal import mistakes_title, place_of
from coremlscope.results.aggregate import aggregate, total_operations
from coremlscope.results.trace import Trace

__all__ = ["trace_card"]

_MOST_ROWS = 8
_LANE_COLUMNS = 72


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
    operations = [
        (row.model or "–", row.operation, format_duration(row.median_s), row.share)
        for row in total_operations(trace)[:_MOST_ROWS]
    ]
    mistakes = [(place_of(trace, m) or "–", m.title, m.fix) for m in trace.mistakes]
    return card(
        " ".join(trace.command) or "Recorded program",
        f"{format_duration(trace.duration_s)}, {mistakes_title(trace).lower()}",
        [
            Grid("Mistakes", ("line", "mistake", "fix"), mistakes),
            Grid("Totals, measured", ("model", "event", "count>", "total>", "median>"), rows),
            Grid("Operations, measured", ("model", "operation", "median>", "share"), operations),
        ],
        drawing=_draw_lanes(trace),
    )


def _draw_lanes(trace: Trace) -> str:
    lanes = list(text_lanes(trace, _LANE_COLUMNS))
    width = max((len(lane.name) for lane in lanes), default=0)
    return "\n".join(f"{lane.lane:<9}{lane.name:<{width}} ▏{lane.line}▕" for lane in lanes)
