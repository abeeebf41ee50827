"""A recorded program for the console: lanes, totals, mistakes."""

from __future__ import annotations

from pathlib import Path

from coremlscope.base.units import format_bytes, format_count, format_duration
from coremlscope.reports.program.lanes import text_lanes
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import plural
from coremlscope.results.aggregate import Aggregate, Order, aggregate, total_operations
from coremlscope.results.trace import Mistake, Trace

__all__ = ["place_of", "render_program", "summary_pairs"]

#: Rows of totals that the console shows.
_MOST_ROWS = 24
_MOST_OPERATIONS = 12
_MARKS = {"warning": ("!", "yellow"), "info": ("·", "")}


def render_program(trace: Trace, *, width: int = 100, color: bool = False, order: Order = "total") -> str:
    """Renders a recorded program.

    Args:
        trace: The trace.
        width: The width of the terminal in characters.
        color: Uses colours.
        order: How totals are sorted.
    """
    screen = Screen(width, color)
    screen.title(" ".join(trace.command) or "This program", f"  {format_duration(trace.duration_s)}")
    screen.pairs(summary_pairs(trace))
    show_mistakes(screen, trace)
    show_lanes(screen, trace)
    _show_totals(screen, trace, order)
    _show_operations(screen, trace)
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
        ("events", f"{len(trace.events):,}, {plural(len(trace.models), 'load')} of models{lost}"),
        ("processes", f"{plural(len(trace.processes), 'process')}, {plural(threads, 'thread')}"),
        (
            "not ended",
            ", ".join(killed) and f"{', '.join(killed)}: killed, left by os._exit, or still running",
        ),
        ("recording took", took),
    ]


def show_mistakes(screen: Screen, trace: Trace) -> None:
    """Prints the mistakes, the costliest first."""
    screen.heading("Mistakes" if trace.mistakes else "No mistakes found")
    for mistake in trace.mistakes:
        mark, style = _MARKS[mistake.severity]
        place = place_of(trace, mistake)
        saving = f" Saves about {format_duration(mistake.gain_s)} here." if mistake.gain_s else ""
        text = (
            f"{place}: {mistake.title}. {mistake.evidence}"
            if place
            else f"{mistake.title}. {mistake.evidence}"
        )
        screen.bullet(mark, text, mistake.fix + saving, style)


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


def show_lanes(screen: Screen, trace: Trace) -> None:
    """Prints the lanes."""
    models = max((len(model.name) for model in trace.models), default=0)
    label = min(max(models, 4), screen.width // 4)
    columns = max(screen.width - 2 - 9 - label - 3, 10)
    drawn = list(text_lanes(trace, columns))
    if not drawn:
        return
    first_s, last_s = int(trace.events.start_ns.min()) / 1e9, trace.duration_s
    span = f"{format_duration(first_s)} to {format_duration(last_s)}"
    step = format_duration((last_s - first_s) / columns)
    screen.heading("Lanes", f"{span}, {step} a character; L load, C compile")
    for lane in drawn:
        name = lane.model if len(lane.model) <= label else lane.model[: label - 1] + "…"
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
