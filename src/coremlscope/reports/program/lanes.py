"""Lanes of a recorded program as lines of characters: how busy each stretch of time was."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from coremlscope.reports.words import shorten
from coremlscope.results.aggregate import group_models
from coremlscope.results.events import EVENT_KINDS, KIND_CODES, LANES, Lane
from coremlscope.results.trace import Events, Trace

#: From idle to busy.
_SHADES = " ░▒▓█"
#: Kinds that a lane shows by their first letter.
_LETTERS = {KIND_CODES["load"]: "L", KIND_CODES["compile"]: "C"}
#: Kinds of intervals of compute units, and of requests to them, by Instruments.
_UNITS = [code for code, kind in enumerate(EVENT_KINDS) if kind.name.endswith((" busy", " request"))]
_TITLES: dict[Lane, str] = {"activity": "Activity", "data": "Data", "compute": "Compute"}


class _TextLane(msgspec.Struct, frozen=True):
    """A line of events.

    Attributes:
        lane: The lane's name; empty after its first line.
        name: The model, or the type of event; empty for a whole lane.
        line: A character for each stretch of time.
    """

    lane: str
    name: str
    line: str


def draw_lanes(trace: Trace, width: int) -> list[str]:
    """Draws the lanes with their names in lines of a width; see `_lanes`."""
    names = {lane.name for lane in _lanes(trace, 1)}
    label = min(max(map(len, names), default=4), width // 4)
    return [
        f"  {lane.lane:<9}{shorten(lane.name, label):<{label}} ▏{lane.line}▕"
        for lane in _lanes(trace, max(width - 14 - label, 10))
    ]


def _lanes(trace: Trace, columns: int) -> Iterator[_TextLane]:
    """Draws the lanes. A compute unit that Instruments recorded always has a line of its own.

    Args:
        trace: The trace.
        columns: The number of stretches into which the time from the first event to the end is divided.
    """
    names, groups = group_models(trace)
    events = trace.events
    if not len(events):
        return
    span = (int(events.start_ns.min()), max(trace.duration_ns, int(events.end_ns.max())))
    lane_of = np.array([LANES.index(kind.lane) for kind in EVENT_KINDS])[events.kind]
    types = events.kind + len(names)
    models = np.where(events.model >= 0, groups[events.model] if len(groups) else -1, -1)
    lines = np.where((models == -1) & np.isin(events.kind, _UNITS), types, models)
    titles = (*names, *(kind.name for kind in EVENT_KINDS), "")
    for position, lane in enumerate(LANES):
        title = _TITLES[lane]
        for line in np.unique(lines[lane_of == position]).tolist():
            chosen = events.where((lane_of == position) & (lines == line) & (events.duration_ns > 0))
            if len(chosen):
                yield _TextLane(title, titles[line].removesuffix(" busy"), _draw(chosen, span, columns))
                title = ""


def _draw(events: Events, span_ns: tuple[int, int], columns: int) -> str:
    first, last = span_ns
    edges = np.linspace(first, max(last, first + 1), columns + 1)
    # Threads overlap, so that a stretch can be more than busy.
    shares = np.minimum(_busy(events, edges), 1.0)
    shades = np.ceil(shares * (len(_SHADES) - 1)).astype(int)
    line = [_SHADES[shade] for shade in shades]
    for code, letter in _LETTERS.items():
        chosen = events.where(events.kind == code)
        if len(chosen):
            for column in np.flatnonzero(_busy(chosen, edges) >= np.maximum(shares / 2, 1e-3)).tolist():
                line[column] = letter
    return "".join(line)


def _busy(events: Events, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The share of each stretch that events cover; nested ones are counted once."""
    top = events.where(events.depth == events.depth.min()) if len(events) else events
    starts, ends = np.sort(top.start_ns), np.sort(top.end_ns)
    # The covered time before an edge is the time since all starts before it, less that since all ends.
    since_start = _time_since(starts, edges)
    since_end = _time_since(ends, edges)
    covered: npt.NDArray[np.float64] = np.diff(since_start - since_end) / np.diff(edges)
    return covered


def _time_since(moments: npt.NDArray[np.int64], edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """For each edge, the sum of the times from the moments before it."""
    sums = np.concatenate([[0.0], np.cumsum(moments, dtype=np.float64)])
    before = np.searchsorted(moments, edges)
    result: npt.NDArray[np.float64] = before * edges - sums[before]
    return result
