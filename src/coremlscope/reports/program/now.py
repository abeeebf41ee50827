"""The last seconds of the recording of a running program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec.structs
import numpy as np

from coremlscope.base.units import format_duration
from coremlscope.reports.document import Block, Column, Heading, Table, Text, Title, labels, numbers
from coremlscope.reports.program.report import lane_section, mistake_section
from coremlscope.results.aggregate import aggregate
from coremlscope.results.events import EVENT_KINDS, LANES
from coremlscope.results.trace import Events, Trace

_MOST_MISTAKES = 3


def now_document(
    trace: Trace, *, now_s: float, window_s: float, output: Sequence[str] = ()
) -> Iterator[Block]:
    """Yields the last seconds of a recording: predictions by model, the share of each lane, lanes, mistakes.

    Args:
        trace: What was recorded so far.
        now_s: The time, in seconds from the start of the trace.
        window_s: The length of the time that is shown.
        output: The last lines that the program printed.
    """
    start_s = max(now_s - window_s, 0.0)
    window = trace.events.between(start_s, now_s)
    length_s = max(now_s - start_s, 1e-9)
    yield Title(" ".join(trace.command), f"running for {format_duration(now_s)}")
    shares = "  ".join(f"{lane} {share:.0%}" for lane, share in _shares(window, start_s, now_s))
    yield Text(f"the last {format_duration(length_s)}, measured: {shares or 'no events'}", "", 0)
    totals = {(row.model, row.kind): row.count for row in aggregate(trace)}
    rows = [
        (
            row.model,
            row.kind,
            f"{row.count / length_s:.1f}",
            format_duration(row.median_s),
            format_duration(row.p99_s),
            f"{totals[row.model, row.kind]:,}",
        )
        for row in sorted(aggregate(trace, (start_s, now_s)), key=lambda row: (row.model, row.kind))
        if row.kind in ("predict", "load")
    ]
    if rows:
        columns = (labels("model"), Column("event", rank=-1), *numbers("per second", "median", "p99", "all"))
        yield Table(columns, rows)
    yield from lane_section(msgspec.structs.replace(trace, events=window, duration_ns=int(now_s * 1e9)))
    if trace.mistakes:
        yield from mistake_section(msgspec.structs.replace(trace, mistakes=trace.mistakes[:_MOST_MISTAKES]))
    if output:
        yield Heading("Output")
    yield from (Text(line, "") for line in output)


def _shares(window: Events, start_s: float, end_s: float) -> list[tuple[str, float]]:
    """The share of the time in which each lane is busy; threads overlap, so that it may exceed 1."""
    length = (end_s - start_s) * 1e9
    found = []
    for lane in LANES:
        codes = [code for code, kind in enumerate(EVENT_KINDS) if kind.lane == lane]
        events = window.where(np.isin(window.kind, codes) & (window.duration_ns > 0))
        if lane == "activity":
            events = events.where(events.depth == 0)
        spent = np.minimum(events.end_ns, end_s * 1e9) - np.maximum(events.start_ns, start_s * 1e9)
        if len(events):
            found.append((lane.capitalize(), float(spent.sum()) / length))
    return found
