"""The totals of a recorded program as CSV."""

from __future__ import annotations

from typing import Any

from coremlscope.reports.csv import render_columns
from coremlscope.results.aggregate import Aggregate, aggregate
from coremlscope.results.trace import Trace


def render_program_csv(trace: Trace) -> str:
    """Renders one row for each model and kind of event; times are in seconds."""
    return render_columns(total_columns(trace))


def total_columns(trace: Trace) -> dict[str, list[Any]]:
    """Returns the totals as columns by name."""
    rows = aggregate(trace)
    return {f: [getattr(row, f) for row in rows] for f in Aggregate.__struct_fields__}
