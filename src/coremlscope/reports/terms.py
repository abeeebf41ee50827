"""What estimates are made of: their terms, and the nearest published latencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from coremlscope.base.figures import Figure
from coremlscope.base.units import format_bytes, format_duration, format_share
from coremlscope.devices.catalog import all_chips
from coremlscope.reports.document import Block, Column, Facts, Heading, Table, Text
from coremlscope.reports.words import UNIT_NAMES
from coremlscope.results.estimate import Estimate, MemoryEstimate, NearRow

_TERMS = (
    Column("term", style="cyan"),
    Column("estimate", is_number=True),
    Column("share", is_number=True),
    Column("what it is"),
)
#: The terms of a unit, in the order in which they are listed, with what they are.
_MEANINGS = {
    "launch_s": ("launch", "fixed cost of using the unit in a prediction"),
    "compute_s": ("arithmetic", "kernels that wait for it"),
    "weights_s": ("weights", "kernels that wait for them to be read from memory"),
    "activations_s": ("activations", "kernels that wait for inputs and results"),
    "operations_s": ("operations", "starting each kernel, and functions at the end of some"),
}
_NEAR = (
    Column("published", most=34, style="cyan"),
    Column("by", most=24, rank=3),
    Column("chip", most=12),
    Column("weights", most=9, rank=4),
    Column("structure", most=16, rank=2),
    Column("measured", is_number=True),
    Column("ours", is_number=True),
    Column("ratio", is_number=True, rank=1),
)
_NOT_KNOWN = "not known: no two publications of comparable models"
#: Structures up to this distance are called the same, or alike.
_SAME, _ALIKE = 0.05, 0.5


def term_sections(estimates: Iterable[Estimate]) -> Iterator[Block]:
    """Yields the terms of each estimate and the published latencies nearest to it.

    Settings of a device whose explanations are equal, because the same operations run on the same units, are
    shown once.
    """
    for settings in _alike(estimates):
        e = settings[0]
        names = ", ".join(one.compute_units for one in settings)
        yield Heading(f"What the estimate is made of: {e.device}, {names}", _uses(e))
        yield Table(_TERMS, list(_terms(e)))
        yield Facts(_around(e), 2)
        if not e.near:
            yield Text("no published latencies of this unit")
            continue
        yield Heading("Published latencies that are nearest", _spread(e.near))
        yield Table(_NEAR, [_near(row) for row in e.near])
        yield from map(Text, dict.fromkeys(row.url for row in e.near if row.url))


def _alike(estimates: Iterable[Estimate]) -> Iterable[list[Estimate]]:
    """Groups estimates of one device whose explanations are equal."""
    groups: dict[object, list[Estimate]] = {}
    for e in estimates:
        key = e.device, e.os, _uses(e), tuple(_terms(e)), tuple(_around(e)), tuple(map(_near, e.near))
        groups.setdefault(key, []).append(e)
    return groups.values()


def _around(e: Estimate) -> list[tuple[str, str]]:
    """Rows besides the prediction time: memory, load times, and unknown values."""
    memory = list(_memory(e.memory, e))
    if e.load is None:
        return [("loading", _NOT_KNOWN), *memory]
    by = f"by {e.load.publications} publications and the number of parameters"
    return [
        ("first load", f"{_range(e.load.first_s)}: compiles for the Neural Engine, {by}"),
        ("later loads", f"{_range(e.load.cached_s)}: from Core ML's cache"),
        *memory,
    ]


def _memory(memory: MemoryEstimate | None, e: Estimate) -> Iterator[tuple[str, str]]:
    """Yields the memory of a prediction, its parts by unit, and what an app may use."""
    if memory is None or memory.peak is None:
        yield "peak memory", "not known: the size of a result is not known before a prediction"
        return
    peak = memory.peak
    bounds = f"{format_bytes(peak.low)} – {format_bytes(peak.high)}"
    state = f", {format_bytes(memory.state_bytes)} of states" if memory.state_bytes else ""
    yield (
        "peak memory",
        f"{format_bytes(peak.value)} (bounds {bounds}), from the file: {format_bytes(memory.weights_bytes)}"
        f" of weights{state}, {format_bytes(memory.activations_bytes or 0)} of inputs and results at"
        f" {memory.peak_op}",
    )
    units = [
        f"{UNIT_NAMES[unit]} {format_bytes(size)} and {format_bytes(memory.activations_by_unit.get(unit, 0))}"
        for unit, size in memory.weights_by_unit.items()
    ]
    if units:
        yield "by unit", f"weights and results: {', '.join(units)}"
    if memory.limit is not None:
        share = format_share(peak.value / memory.limit.limit_bytes)
        yield "of an app's", f"{share} of {format_bytes(memory.limit.limit_bytes)} ({memory.limit.source})"
    elif e.os.startswith("iOS"):
        yield "of an app's", "not known: no measurement of what an app may use there is published"


def _range(figure: Figure) -> str:
    ends = f"{format_duration(figure.low)} – {format_duration(figure.high)}"
    return f"{format_duration(figure.value)} (80 % within {ends})"


def _uses(e: Estimate) -> str:
    if e.own is None:
        return "from published latencies alone"
    factors = ", ".join(f"{UNIT_NAMES[unit]} × {factor:.2f}" for unit, factor in e.own.factors.items())
    return f"with your measurements: {factors}"


def _terms(e: Estimate) -> Iterator[tuple[str, str, str, str]]:
    whole, listed = e.latency.value, 0.0
    for terms in e.terms:
        for name, (title, meaning) in _MEANINGS.items():
            seconds = getattr(terms, name)
            listed += seconds
            if seconds:
                yield (f"{UNIT_NAMES[terms.unit]}: {title}", *_cells(seconds, whole), meaning)
    switches = e.parts.get("switches", 0.0)
    if switches:
        meaning = f"{e.switches} in a prediction: transfers, and coming back to an accelerator"
        yield ("changes of the unit", *_cells(switches, whole), meaning)
    rest = whole - listed - switches
    if rest > whole * 1e-6:
        yield ("conversion", *_cells(rest, whole), "inputs and outputs to and from half precision")


def _cells(seconds: float, whole: float) -> tuple[str, str]:
    return format_duration(seconds), format_share(seconds / whole)


def _spread(rows: Sequence[NearRow]) -> str:
    ratios = sorted(row.estimated_s / row.measured_s for row in rows)
    none = "" if any(row.distance <= _ALIKE for row in rows) else "none is alike; "
    return f"{none}ours are {ratios[0]:.2f} to {ratios[-1]:.2f} × the measured ones"


def _near(row: NearRow) -> tuple[str, ...]:
    alike = "same" if row.distance <= _SAME else "alike" if row.distance <= _ALIKE else "unlike"
    return (
        row.network,
        row.publication,
        all_chips()[row.chip].name,
        row.precision,
        f"{alike} ({row.distance:.2f})",
        format_duration(row.measured_s),
        format_duration(row.estimated_s),
        f"{row.estimated_s / row.measured_s:.2f}",
    )
