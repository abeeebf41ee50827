"""Summarizes readings of power: the energy of each part of a system over a window of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.units import format_duration
from coremlscope.results.recording import Energy, SystemPart, UnitEnergy

PARTS: tuple[SystemPart, ...] = ("cpu", "gpu", "neural_engine", "memory", "system")
_NAMES: Mapping[SystemPart, str] = {
    "cpu": "CPU",
    "gpu": "GPU",
    "neural_engine": "Neural Engine",
    "memory": "memory",
    "system": "whole system",
}
#: The counters were seen to change every 1.6 to 1.7 s (M1 Ultra, lablup/all-smi PR 424).
_SHORTEST_S = 2.0
_MOST_READINGS = 1_000_000
_MOST_W = 1e5
_MOST_LEVELS = 20


class Reading(msgspec.Struct, frozen=True):
    """Mean power over an interval.

    Attributes:
        watts: By part; parts that are absent were not read.
        seconds: The length of the interval; None if unknown.
        thermal: The level of thermal pressure; empty if it was not read.
    """

    watts: Mapping[SystemPart, float]
    seconds: float | None = None
    thermal: str = ""


@dataclass(slots=True, kw_only=True)
class Readings:
    """Power readings written by a tool.

    Attributes:
        tool: The tool: `powermetrics`.
        device: The device's identifier: `Mac16,10`; empty if unknown.
        system: Its system: `build 25F71`.
        listed: In order of time.
        damaged: How many pieces of the file could not be read.
    """

    tool: str
    device: str = ""
    system: str = ""
    listed: list[Reading] = field(default_factory=list)
    damaged: int = 0

    def add(self, reading: Reading) -> None:
        """Adds a reading; power that is negative or larger than any device takes is dropped.

        Raises:
            UsageError: There are too many.
        """
        if len(self.listed) >= _MOST_READINGS:
            raise UsageError(f"there are more than {_MOST_READINGS} readings", "record for a shorter time")
        known = {part: watts for part, watts in reading.watts.items() if 0 <= watts <= _MOST_W}
        self.listed.append(Reading(known, reading.seconds, reading.thermal))


def summarize_readings(readings: Readings, predictions: int | None = None) -> Energy:
    """Computes mean power, and energy if the length of every interval is known.

    A part whose power is 0 in every reading is left out: on some systems its counter does not move.

    Args:
        readings: At least one.
        predictions: Predictions that were made meanwhile; None if unknown.
    """
    listed = readings.listed
    known = [reading.seconds for reading in listed if reading.seconds is not None]
    window = sum(known) if len(known) == len(listed) else None
    units = []
    for part in PARTS:
        having = [reading for reading in listed if part in reading.watts]
        weights = [1.0 if window is None else reading.seconds or 0.0 for reading in having]
        total = sum(reading.watts[part] * weight for reading, weight in zip(having, weights, strict=True))
        if total > 0:
            mean = total / sum(weights)
            units.append(UnitEnergy(part, mean, None if window is None else mean * window))
    return Energy(
        tool=readings.tool,
        window_s=window,
        samples=len(listed),
        units=tuple(units),
        predictions=predictions,
        thermal=_levels(reading.thermal for reading in listed),
    )


def energy_findings(readings: Readings, energy: Energy) -> list[Finding]:
    """How to read the energy."""
    text = (
        "Energy is that of the whole system, by counters that model the chip: other programs and what the"
        " system takes at rest count, and Apple calls the values estimates."
    )
    found = [Finding(id="energy-is-modelled", severity="info", text=text)]
    read = {part for reading in readings.listed for part in reading.watts}
    zero = [_NAMES[part] for part in PARTS if part in read - {unit.unit for unit in energy.units}]
    if zero:
        text = f"These counters stayed at 0, so their energy is unknown: {', '.join(zero)}."
        hint = "on some chips and systems they do not move; measure a model that is known to run there"
        found.append(Finding(id="counter-at-zero", severity="warning", text=text, hint=hint))
    if energy.window_s is not None and energy.window_s < _SHORTEST_S:
        text = (
            f"The window is {format_duration(energy.window_s)} long, and the counters change every 1.7 s or"
            " so: the energy is rough."
        )
        found.append(Finding(id="energy-window-short", severity="warning", text=text))
    if readings.damaged:
        text = f"Readings that are truncated or damaged were left out: {readings.damaged}."
        found.append(Finding(id="damaged-readings", severity="warning", text=text))
    return found


def _levels(levels: Iterable[str]) -> tuple[str, ...]:
    """Levels in order, without repetitions."""
    found: list[str] = []
    for level in levels:
        if level and found[-1:] != [level]:
            found.append(level)
    return tuple(found[:_MOST_LEVELS])
