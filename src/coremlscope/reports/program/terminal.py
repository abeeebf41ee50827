"""A recorded program for the console: lanes, totals, mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coremlscope.base.units import format_bytes, format_count, format_duration
from coremlscope.devices.unit import UNIT_WORDS
from coremlscope.reports.program.lanes import Grouping, text_lanes
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import plural
from coremlscope.results.aggregate import Aggregate, Order, aggregate, group_models, total_operations
from coremlscope.results.recording import UnitSamples
from coremlscope.results.trace import Mistake, Trace

__all__ = ["mistakes_note", "mistakes_title", "place_of", "render_program", "saving", "summary_pairs"]

#: Rows of totals that the console shows.
_MOST_ROWS = 24
_MOST_OPERATIONS = 12
_MARKS = {"warning": ("!", "yellow"), "info": ("·", "")}


def render_program(
    trace: Trace,
    *,
    width: int = 100,
    color: bool = False,
    order: Order = "total",
    by: Grouping = "model",
) -> str:
    """Renders a recorded program.

    Args:
        trace: The trace.
        width: The width of the terminal in characters.
        color: Uses colours.
        order: How totals are sorted.
        by: What has a line of its own among the lanes.
    """
    screen = Screen(width, color)
    screen.title(" ".join(trace.command) or "This program", f"  {format_duration(trace.duration_s)}")
    screen.pairs(summary_pairs(trace))
    show_mistakes(screen, trace)
    show_lanes(screen, trace, by)
    _show_totals(screen, trace, order)
    _show_operations(screen, trace)
    show_samples(screen, trace.samples)
    return screen.text


def summary_pairs(trace: Trace) -> list[tuple[str, str]]:
    """Returns the facts of a recording as labels and values."""
    called = trace.events.where(trace.events.thread >= 0)
    threads = len(set(zip(called.process.tolist(), called.thread.tolist(), strict=True)))
    share = f" ({100 * trace.overhead_s / trace.duration_s:.2g} % of the time)" if trace.duration_ns else ""
    lost = f"; {format_count(trace.lost)} older ones were replaced" if trace.lost else ""
    killed = [str(process.pid) for process in trace.processes if not process.ended]
    recorded = " on ".join(filter(None, [trace.made, trace.host]))
    took = f"{format_duration(trace.overhead_s)}{share}" if trace.overhead_s else ""
    return [
        ("recorded", recorded),
        ("events", f"{len(trace.events):,}, {_loads(trace)}{lost}"),
        ("processes", f"{plural(len(trace.processes), 'process')}, {plural(threads, 'thread')}"),
        (
            "not ended",
            ", ".join(killed) and f"{', '.join(killed)}: killed, left by os._exit, or still running",
        ),
        ("recording took", took),
    ]


def _loads(trace: Trace) -> str:
    """`20 loads of 1 model`."""
    names, _ = group_models(trace)
    return f"{plural(trace.loads, 'load')} of {plural(len(names), 'model')}"


def mistakes_title(trace: Trace) -> str:
    """Returns whether mistakes were found, or could not be searched."""
    if trace.mistakes:
        return plural(len(trace.mistakes), "mistake")
    return "No mistakes found" if trace.searched else "Not searched for mistakes"


def mistakes_note(trace: Trace) -> str:
    """Returns what the mistakes cost together, or what was searched; empty for nothing to say."""
    if trace.gain_s:
        return f"together they cost {format_duration(trace.gain_s)} of {format_duration(trace.duration_s)}"
    if not trace.searched:
        wanted = "; export Core ML's table too" if not trace.sites and len(trace.events) else ""
        return f"the recording has no loads and no predictions{wanted}"
    return f"searched for {', '.join(trace.searched)}" if not trace.mistakes and not trace.sites else ""


def saving(mistake: Mistake) -> str:
    """Returns what a change would have saved, as a sentence after others; empty if that is unknown."""
    if mistake.gain_s:
        more = (
            f" besides {format_duration(mistake.shared_s)} that is counted above" if mistake.shared_s else ""
        )
        return f" Saves about {format_duration(mistake.gain_s)} here{more}."
    return f" Saves {format_duration(mistake.shared_s)} that is counted above." if mistake.shared_s else ""


def show_mistakes(screen: Screen, trace: Trace) -> None:
    """Prints the mistakes, the costliest first."""
    screen.heading(mistakes_title(trace), mistakes_note(trace))
    for mistake in trace.mistakes:
        mark, style = _MARKS[mistake.severity]
        place = place_of(trace, mistake)
        text = (
            f"{place}: {mistake.title}. {mistake.evidence}"
            if place
            else f"{mistake.title}. {mistake.evidence}"
        )
        screen.bullet(mark, text, mistake.fix + saving(mistake), style)


def place_of(trace: Trace, mistake: Mistake) -> str:
    """Returns the line of a mistake as `app.py:12 in load`; empty if it is unknown."""
    if not 0 <= mistake.site < len(trace.sites):
        return ""
    site = trace.sites[mistake.site]
    function = f" in {site.function}" if site.function not in ("", "<module>") else ""
    return f"{_short(site.file)}:{site.line}{function}"


def _short(file: str) -> str:
    """A path relative to the working folder if it is below it, otherwise its name."""
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return path.name


def show_lanes(screen: Screen, trace: Trace, by: Grouping = "model") -> None:
    """Prints the lanes."""
    names = {lane.name for lane in text_lanes(trace, 1, by)}
    label = min(max(map(len, names), default=4), screen.width // 4)
    columns = max(screen.width - 2 - 9 - label - 3, 10)
    drawn = list(text_lanes(trace, columns, by))
    if not drawn:
        return
    first_s, last_s = int(trace.events.start_ns.min()) / 1e9, trace.duration_s
    span = f"{format_duration(first_s)} to {format_duration(last_s)}"
    step = format_duration((last_s - first_s) / columns)
    screen.heading("Lanes", f"{span}, {step} a character; L load, C compile")
    for lane in drawn:
        name = lane.name if len(lane.name) <= label else lane.name[: label - 1] + "…"
        screen.line(f"{lane.lane:<9}{name:<{label}} ▏{lane.line}▕", indent=2)


def _show_totals(screen: Screen, trace: Trace, order: Order) -> None:
    rows = aggregate(trace, order=order)
    if not rows:
        return
    remark = "measured; times of one thread nest: a prediction contains its conversions and runs"
    screen.heading("Totals", remark)
    columns = [
        Column("model", most=max(screen.width // 4, 12), style="cyan"),
        Column("event"),
        Column("count", is_number=True),
        Column("total", is_number=True),
        Column("median", is_number=True),
        Column("p99", is_number=True),
        Column("max", is_number=True),
        Column("bytes", is_number=True),
    ]
    if screen.width < 80:
        columns = [c for c in columns if c.title not in ("p99", "bytes")]
    cells = [_cells(row) for row in rows[:_MOST_ROWS]]
    kept = {column.title for column in columns}
    screen.table(columns, [[text for title, text in row.items() if title in kept] for row in cells])
    if len(rows) > _MOST_ROWS:
        screen.line(f"and {len(rows) - _MOST_ROWS} more rows", indent=2)


def _show_operations(screen: Screen, trace: Trace) -> None:
    rows = total_operations(trace)
    if not rows:
        return
    screen.heading("Operations", "measured by the engine's profiler, which makes runs longer")
    columns = [
        Column("operation", most=max(screen.width - 44, 20), style="cyan"),
        Column("count", is_number=True),
        Column("total", is_number=True),
        Column("median", is_number=True),
        Column("share", is_number=True),
    ]
    cells = [
        (
            row.operation,
            f"{row.count:,}",
            format_duration(row.total_s),
            format_duration(row.median_s),
            f"{100 * row.share:.0f} %",
        )
        for row in rows[:_MOST_OPERATIONS]
    ]
    screen.table(columns, cells)
    if len(rows) > _MOST_OPERATIONS:
        screen.line(f"and {len(rows) - _MOST_OPERATIONS} more rows", indent=2)


def show_samples(screen: Screen, samples: Sequence[UnitSamples]) -> None:
    """Prints the functions of each unit's software that samples of call stacks were in most often."""
    if not samples:
        return
    screen.heading("Call samples", "the innermost function of each unit's software")
    columns = [
        Column("unit"),
        Column("function", most=max(screen.width - 50, 20), style="cyan"),
        Column("thread", most=24),
        Column("samples", is_number=True),
    ]
    rows = []
    for unit in samples:
        name = UNIT_WORDS[unit.unit].removeprefix("the ")
        rows.append((name, "all", "", f"{unit.samples:,}"))
        rows += [("", frame.function, frame.thread, f"{frame.samples:,}") for frame in unit.frames]
    screen.table(columns, rows)


def _cells(row: Aggregate) -> dict[str, str]:
    failed = f" ({row.failed} failed)" if row.failed else ""
    is_moment = row.max_s == 0
    times = {"total": row.total_s, "median": row.median_s, "p99": row.p99_s, "max": row.max_s}
    return {
        "model": row.model or "–",
        "event": row.kind + failed,
        "count": f"{row.count:,}",
        **{title: "" if is_moment else format_duration(value) for title, value in times.items()},
        "bytes": format_bytes(row.bytes) if row.bytes else "",
    }
