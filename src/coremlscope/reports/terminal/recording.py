"""Recorded busy times of units and energy, for the console."""

from __future__ import annotations

from coremlscope.reports.recording import (
    ENERGY_TITLES,
    RECORDING_TITLES,
    energy_line,
    energy_rows,
    recording_lines,
    recording_rows,
)
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.results.recording import Energy, Recording

__all__ = ["show_energy", "show_recording"]


def show_recording(screen: Screen, recording: Recording | None) -> None:
    """Prints when each unit was busy in a recording."""
    if recording is None:
        return
    screen.heading("Busy units", "measured in a recording, which slows the run down")
    if recording.units:
        screen.table(_columns(RECORDING_TITLES), recording_rows(recording))
    for line in recording_lines(recording):
        screen.line(line, "dim", indent=2)


def show_energy(screen: Screen, energy: Energy | None) -> None:
    """Prints the energy by unit."""
    if energy is None:
        return
    screen.heading("Energy", "estimated by the system's counters")
    if energy.units:
        screen.table(_columns(ENERGY_TITLES), energy_rows(energy))
    screen.line(energy_line(energy), "dim", indent=2)


def _columns(titles: tuple[str, ...]) -> list[Column]:
    first, *others = titles
    return [
        Column(first, style="cyan"),
        *(Column(title.removesuffix(">"), is_number=title.endswith(">")) for title in others),
    ]
