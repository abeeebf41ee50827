"""Renders the last seconds of the recording of a running program for the console."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec.structs
import numpy as np

from coremlscope.base.units import format_duration
from coremlscope.reports.program.terminal import show_lanes, show_mistakes
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.results.aggregate import aggregate
from coremlscope.results.events import EVENT_KINDS, LANES
from coremlscope.results.trace import Events, Trace

__all__ = ["render_now"]

_MOST_MISTAKES = 3


def render_now(
    trace: Trace,
    *,
    now_s: float,
    window_s: float,
    output: Sequence[str] = (),
    width: int = 100,
    color: bool = False,
) -> str:
    """Renders the last seconds of a recording: predictions by model, the share of each lane, lanes, mistakes.

    Args:
        trace: What was recorded so far.
        now_s: The time, in seconds from the start of the trace.
        window_s: The length of the time that is shown.
        output: The last lines that the program printed.
        width: The width of the terminal in characters.
        color: Uses colours.
    """
    start_s = max(now_s - window_s, 0.0)
    window = trace.events.between(start_s, now_s)
    length_s = max(now_s - start_s, 1e-9)
    screen = Screen(width, color)
    screen.title(" ".join(trace.command), f"  running for {format_duration(now_s)}")
    shares = "  ".join(f"{lane} {share:.0%}" for lane, share in _shares(window, start_s, now_s))
    screen.line(f"the last {format_duration(length_s)}, measured: {shares or 'no events'}")
    rows = [row for row in aggregate(trace, start_s, now_s, order="name") if row.kind in ("predict", "load")]
    if rows:
        columns = [
            Column("model", most=max(width // 3, 12), style="cyan"),
            Column("event"),
            Column("per second", is_number=True),
            Column("median", is_number=True),
            Column("p99", is_number=True),
            Column("all", is_number=True),
        ]
        totals = {(row.model, row.kind): row.count for row in aggregate(trace)}
        cells = [
            (
                row.model,
                row.kind,
                f"{row.count / length_s:.1f}",
                format_duration(row.median_s),
                format_duration(row.p99_s),
                f"{totals[row.model, row.kind]:,}",
            )
            for row in rows
        ]
        screen.table(columns, cells)
    if len(window):
        show_lanes(screen, msgspec.structs.replace(trace, events=window, duration_ns=int(now_s * 1e9)))
    if trace.mistakes:
        show_mistakes(screen, msgspec.structs.replace(trace, mistakes=trace.mistakes[:_MOST_MISTAKES]))
    if output:
        screen.heading("Output")
        for line in output:
            screen.line(line, indent=2)
    return screen.text


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
