"""Recorded busy times of units, and energy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coremlscope.base.units import format_count, format_duration, format_energy, format_power, format_share
from coremlscope.reports.document import Block, Column, Folded, Table, Text, numbers
from coremlscope.reports.words import UNIT_NAMES, plural
from coremlscope.results.recording import Energy, Recording, SystemPart, UnitActivity

_LISTED = 3
_NAMES: Mapping[SystemPart, str] = {
    "cpu": UNIT_NAMES["cpu"],
    "gpu": UNIT_NAMES["gpu"],
    "neural_engine": UNIT_NAMES["neural_engine"],
    "memory": "memory",
    "system": "whole system",
}


def recording_section(recording: Recording | None) -> Iterator[Block]:
    """Yields when each unit was busy in a recording."""
    if recording is None:
        return
    columns = (
        Column("unit", style="cyan"),
        *numbers("intervals", "busy", "median", "a prediction"),
        Column("table"),
        Column("of"),
    )
    lines = map(Text, _recording_lines(recording))
    # Pasted stacks are of no recording: they have no tables.
    heading = (
        ("Busy units", "measured in a recording, which slows the run down")
        if recording.units or recording.tables
        else ("Call stacks", "")
    )
    yield Folded(*heading, (Table(columns, _recording_rows(recording)), *lines))


def energy_section(energy: Energy | None) -> Iterator[Block]:
    """Yields the energy by unit."""
    if energy is None:
        return
    columns = (Column("unit", style="cyan"), *numbers("energy", "power", "a prediction"))
    blocks = (Table(columns, _energy_rows(energy)), Text(_energy_line(energy)))
    yield Folded("Energy", "estimated by the system's counters", blocks)


def _recording_rows(recording: Recording) -> list[tuple[str, ...]]:
    """Returns a row for each unit and table."""
    return [
        (
            _NAMES[one.unit],
            format_count(one.intervals),
            format_duration(one.busy_s),
            "–" if one.durations is None else format_duration(one.durations.median),
            _per_prediction(recording, one),
            one.table,
            _whose(recording, one),
        )
        for one in recording.units
    ]


def _per_prediction(recording: Recording, one: UnitActivity) -> str:
    """The median where predictions are delimited, otherwise a mean, which is marked."""
    if one.per_prediction is not None:
        return format_duration(one.per_prediction.median)
    if recording.predictions:
        return f"⌀ {format_duration(one.busy_s / recording.predictions)}"
    return "–"


def _whose(recording: Recording, one: UnitActivity) -> str:
    """Whose work the intervals are."""
    if one.scope == "device":
        return "the whole device"
    names = [part.name for part in one.processes]
    if recording.target in names:
        return recording.target
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _recording_lines(recording: Recording) -> Iterator[str]:
    """Yields sentences about a recording: its size, tables that are empty or absent, samples."""
    parts = [recording.tool]
    if recording.template:
        parts.append(f"template {recording.template}")
    if recording.duration_s is not None:
        parts.append(format_duration(recording.duration_s))
    if recording.predictions:
        how = "delimited by Core ML's table" if recording.are_delimited else "not delimited; ⌀ is a mean"
        parts.append(f"{plural(recording.predictions, 'prediction')} ({how})")
    yield ", ".join(parts)
    without = [
        f"{name}: {'no such table' if rows is None else 'no rows'}"
        for name, rows in recording.tables.items()
        if not rows
    ]
    if without:
        yield "; ".join(without)
    if recording.total_samples:
        named = ", ".join(
            f"{_NAMES[one.unit]} {format_share(one.samples / recording.total_samples)}"
            for one in recording.samples
        )
        text = f"of {plural(recording.total_samples, 'stack sample')} in software of a unit"
        yield f"{text}: {named or 'none'}"
    for one in recording.samples:
        listed = (
            f"{frame.function} ({format_count(frame.samples)}{f', {frame.thread}' if frame.thread else ''})"
            for frame in one.frames[:_LISTED]
        )
        yield f"{_NAMES[one.unit]}, innermost functions: {'; '.join(listed)}"


def _energy_rows(energy: Energy) -> list[tuple[str, ...]]:
    """Returns a row for each unit."""
    count = energy.predictions
    return [
        (
            _NAMES[one.unit],
            "–" if one.energy_j is None else format_energy(one.energy_j),
            format_power(one.power_w),
            "–" if one.energy_j is None or not count else format_energy(one.energy_j / count),
        )
        for one in energy.units
    ]


def _energy_line(energy: Energy) -> str:
    """Returns what the energy is of: the tool, the window and what is reported with it."""
    window = f" over {format_duration(energy.window_s)}" if energy.window_s is not None else ""
    parts = [f"{energy.tool}, {plural(energy.samples, 'reading')}{window}", "of the whole system"]
    if energy.predictions:
        parts.append(plural(energy.predictions, "prediction"))
    if energy.thermal:
        parts.append(f"thermal pressure {' → '.join(energy.thermal)}")
    return ", ".join(parts)
