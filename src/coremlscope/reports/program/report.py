"""A recorded program: mistakes, lanes, totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from coremlscope.base.units import format_bytes, format_count, format_duration, format_share
from coremlscope.devices.unit import UNIT_WORDS
from coremlscope.reports.document import (
    Block,
    Cell,
    Column,
    Conclusion,
    Drawing,
    Facts,
    Heading,
    Item,
    Style,
    Table,
    labels,
    numbers,
)
from coremlscope.reports.program.lanes import draw_lanes
from coremlscope.reports.words import plural
from coremlscope.results.aggregate import (
    Aggregate,
    aggregate,
    aggregate_models,
    group_models,
    total_operations,
)
from coremlscope.results.recording import UnitSamples
from coremlscope.results.trace import LEAST_COST_S, LEAST_COST_SHARE, Mistake, Trace

#: Rows of totals that the console shows.
_MOST_ROWS, _MOST_OPERATIONS = 24, 12
#: The least share of a recording before its first event that is told.
_LEAST_BEFORE = 0.1


def program_document(trace: Trace) -> Iterator[Block]:
    """Yields a recorded program.

    Args:
        trace: The trace.
    """
    yield conclude_trace(trace)
    yield Facts(recording_facts(trace))
    if trace.mistakes:
        yield from mistake_section(trace)
    yield from lane_section(trace)
    yield from _totals(trace)
    yield from _operations(trace)
    yield from _samples(trace.samples)


def conclude_trace(trace: Trace) -> Conclusion:
    """Returns whether mistakes were found in a recording, and what they cost."""
    title = " ".join(trace.command) or "This program"
    length = format_duration(trace.duration_s)
    if trace.mistakes:
        count, costliest = len(trace.mistakes), trace.mistakes[0].title
        more = f", and {plural(count - 1, 'more mistake')}" if count > 1 else ""
        cost = (
            f"{'together ' * (count > 1)}{format_duration(trace.gain_s)} of {length}" if trace.gain_s else ""
        )
        text = ": ".join(filter(None, (f"{costliest}{more}", cost)))
        return Conclusion("doubt", plural(count, "mistake"), text, title)
    text = f"{mistakes_title(trace)} in {length}: {_mistakes_note(trace)}"
    if trace.searched:
        return Conclusion("kept", "no mistakes", text, title)
    return Conclusion("doubt", "unknown", text, title)


def recording_facts(trace: Trace) -> list[tuple[str, str]]:
    """Returns the facts of a recording as labels and values; those without a value are empty."""
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
        ("before the first event", _before(trace)),
        (
            "not ended",
            ", ".join(killed) and f"{', '.join(killed)}: killed, left by os._exit, or still running",
        ),
        ("recording took", took),
    ]


def _before(trace: Trace) -> str:
    """Returns what passed before anything was recorded; empty if that is little."""
    first_s = int(trace.events.start_ns.min()) / 1e9 if len(trace.events) else 0.0
    if not trace.sites or first_s < _LEAST_BEFORE * trace.duration_s:
        return ""
    return (
        f"{format_duration(first_s)} of {format_duration(trace.duration_s)}: the program starts and imports"
    )


def _loads(trace: Trace) -> str:
    """`20 loads of 1 model`."""
    names, _ = group_models(trace)
    return f"{plural(trace.loads, 'load')} of {plural(len(names), 'model')}"


def mistakes_title(trace: Trace) -> str:
    """Returns whether mistakes were found, or could not be searched."""
    if trace.mistakes:
        return plural(len(trace.mistakes), "mistake")
    return "No mistakes found" if trace.searched else "Not searched for mistakes"


def _mistakes_note(trace: Trace) -> str:
    """Returns what a mistake costs at least, or what was searched; empty for nothing to say."""
    least = (
        f"at least {format_duration(LEAST_COST_S)} or {100 * LEAST_COST_SHARE:.0f} % of the recording each"
    )
    if trace.gain_s:
        return least
    if not trace.searched:
        wanted = "; export Core ML's table too" if not trace.sites and len(trace.events) else ""
        return f"the recording has no loads and no predictions{wanted}"
    if trace.mistakes:
        return ""
    return least if trace.sites else f"searched for {', '.join(trace.searched)}; {least}"


def cost_of(mistake: Mistake) -> str:
    """Returns what a mistake cost, as a sentence after others; empty if that is unknown.

    What a change saves is known once the changed program is measured.
    """
    if mistake.gain_s:
        more = (
            f" besides {format_duration(mistake.shared_s)} that is counted above" if mistake.shared_s else ""
        )
        return f" It costs {format_duration(mistake.gain_s)}{more}."
    return f" It costs {format_duration(mistake.shared_s)} that is counted above." if mistake.shared_s else ""


def mistake_section(trace: Trace) -> Iterator[Block]:
    """Yields the mistakes, the costliest first."""
    yield Heading(mistakes_title(trace), _mistakes_note(trace))
    for mistake in trace.mistakes:
        mark: tuple[str, Style] = ("!", "warning") if mistake.severity == "warning" else ("·", "")
        place = _place_of(trace, mistake)
        where = f"{place}: " if place else ""
        yield Item(f"{where}{mistake.title}. {mistake.evidence}", mistake.fix + cost_of(mistake), *mark)


def _place_of(trace: Trace, mistake: Mistake) -> str:
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


def lane_section(trace: Trace) -> Iterator[Block]:
    """Yields what each model was busy with, over the time."""
    if not len(trace.events):
        return
    span = (format_duration(s) for s in (int(trace.events.start_ns.min()) / 1e9, trace.duration_s))
    yield Heading("Lanes", f"{' to '.join(span)}; L load, C compile")
    yield Drawing(lambda width: draw_lanes(trace, width))


def _totals(trace: Trace) -> Iterator[Block]:
    rows = [*aggregate_models(trace), *aggregate(trace)]
    if not rows:
        return
    remark = "measured; times of one thread nest: a prediction contains its conversions and runs"
    yield Heading("Totals", remark)
    columns = (
        labels("model", least=12),
        Column("event", rank=-1),
        Column("count", is_number=True, rank=1),
        *numbers("total", "share", "mean"),
        Column("min", is_number=True, rank=2),
        Column("median", is_number=True, rank=1),
        Column("p95", is_number=True, rank=1),
        Column("max", is_number=True, rank=2),
        Column("bytes", is_number=True, rank=2),
    )
    yield Table(columns, [_total_row(row) for row in rows], _MOST_ROWS)


def _total_row(row: Aggregate) -> tuple[str, ...]:
    failed = f" ({row.failed} failed)" if row.failed else ""
    times = (
        format_duration(row.total_s),
        format_share(row.share),
        *map(format_duration, (row.mean_s, row.min_s, row.median_s, row.p95_s, row.max_s)),
    )
    return (
        row.model or "–",
        row.kind + failed,
        f"{row.count:,}",
        *("" if row.max_s == 0 else text for text in times),
        format_bytes(row.bytes) if row.bytes else "",
    )


def _operations(trace: Trace) -> Iterator[Block]:
    rows: list[tuple[Cell, ...]] = [
        (
            row.model or "–",
            row.operation,
            f"{row.count:,}",
            format_duration(row.total_s),
            format_duration(row.median_s),
            f"{100 * row.share:.0f} %",
            row.share,
        )
        for row in total_operations(trace)
    ]
    if not rows:
        return
    yield Heading("Operations", "measured by the engine's profiler, which makes runs longer")
    columns = (
        Column("model", most=30, rank=2),
        labels("operation", least=20),
        Column("count", is_number=True, rank=1),
        *numbers("total", "median", "share"),
        Column("", style="cyan", rank=3),
    )
    yield Table(columns, rows, _MOST_OPERATIONS)


def _samples(samples: Sequence[UnitSamples]) -> Iterator[Block]:
    """Yields the functions of each unit's software that samples of call stacks were in most often."""
    if not samples:
        return
    rows = []
    for unit in samples:
        name = UNIT_WORDS[unit.unit].removeprefix("the ")
        rows.append((name, "all", "", f"{unit.samples:,}"))
        rows += [("", frame.function, frame.thread, f"{frame.samples:,}") for frame in unit.frames]
    yield Heading("Call samples", "the innermost function of each unit's software")
    columns = (
        Column("unit", most=14),
        Column("function", most=80, style="cyan", is_code=True),
        Column("thread", most=24, rank=1),
        *numbers("samples"),
    )
    yield Table(columns, rows)
