"""Busy times of compute units in a recording, and the energy that a system reported over a window of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from coremlscope.base.figures import Origin
from coremlscope.devices.unit import ComputeUnit
from coremlscope.results.statistics import Statistics

#: Owner of the work in intervals: the whole device, or the processes that they name.
Scope = Literal["device", "processes"]

#: Parts of a system whose energy is reported.
SystemPart = Literal["cpu", "gpu", "neural_engine", "memory", "system"]


class ActivityPart(msgspec.Struct, frozen=True):
    """A part of a unit's intervals: those with one label, or of one process.

    Attributes:
        name: The label, or the process with its id: `python3 (4711)`.
        intervals: How many there are.
        busy_s: Time that at least one of them covers, in seconds.
    """

    name: str
    intervals: int
    busy_s: float


class UnitActivity(msgspec.Struct, frozen=True, kw_only=True):
    """When a compute unit was busy, by one table of a recording.

    Tables of one unit overlap, so their times are never added.

    Attributes:
        unit: `cpu`, `gpu` or `neural_engine`.
        table: The table: `ane-hw-intervals`.
        scope: `device`: the table does not distinguish processes. `processes`: it names them.
        intervals: How many intervals there are.
        busy_s: Time that at least one interval covers, in seconds.
        first_s: The start of the first interval, in seconds from the start of the recording.
        last_s: The end of the last one.
        durations: Summary statistics of the durations of intervals, in seconds; None if there are none.
        labels: By label, longest first.
        processes: By process, longest first; empty if the table does not name them.
        per_prediction: Summary statistics of the busy time within each prediction, in seconds; None if the
            recording does not delimit predictions.
        intervals_per_prediction: The mean number of intervals that begin in a prediction; None likewise.
    """

    unit: ComputeUnit
    table: str
    scope: Scope
    intervals: int
    busy_s: float
    first_s: float = 0.0
    last_s: float = 0.0
    durations: Statistics | None = None
    labels: tuple[ActivityPart, ...] = ()
    processes: tuple[ActivityPart, ...] = ()
    per_prediction: Statistics | None = None
    intervals_per_prediction: float | None = None


class FrameSamples(msgspec.Struct, frozen=True):
    """Samples in one function of a unit's software, on one thread.

    Attributes:
        function: The innermost function of the stack that is the unit's software.
        thread: The thread's name; empty if unknown.
        samples: How many there are.
    """

    function: str
    thread: str
    samples: int


class UnitSamples(msgspec.Struct, frozen=True):
    """Samples of call stacks with frames of a unit's software; a stack may count for several units.

    Attributes:
        unit: `cpu` (BNNS), `gpu` (Metal, Metal Performance Shaders) or `neural_engine`.
        samples: How many there are.
        frames: By function and thread, the most frequent first.
    """

    unit: ComputeUnit
    samples: int
    frames: tuple[FrameSamples, ...] = ()


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A recording by Instruments of a running model. Recording slows a program down.

    Attributes:
        tool: The tool with its version: `Instruments 27.0`.
        template: The template: `Core ML`; empty if unknown.
        target: The process that was recorded, with its id; empty if unknown, or if all were.
        duration_s: The duration of the recording in seconds; None if unknown.
        predictions: Predictions in it; None if unknown.
        are_delimited: True if the recording contains the start and end of each prediction.
        tables: Rows by table that was looked for. None: the recording has no such table. 0 rows mean that
            nothing was recorded, which is no proof that a unit was idle.
        units: Busy times, by unit and table.
        samples: Samples of call stacks by unit; empty if there are none.
        total_samples: Samples of all stacks, those of no unit included.
    """

    tool: str
    template: str = ""
    target: str = ""
    duration_s: float | None = None
    predictions: int | None = None
    are_delimited: bool = False
    tables: Mapping[str, int | None] = msgspec.field(default_factory=dict)
    units: tuple[UnitActivity, ...] = ()
    samples: tuple[UnitSamples, ...] = ()
    total_samples: int = 0
    origin: Origin = "measured"


class UnitEnergy(msgspec.Struct, frozen=True):
    """The energy of a part of the system over a window.

    Attributes:
        unit: `cpu`, `gpu`, `neural_engine`, `memory` or `system`.
        power_w: The mean power in watts.
        energy_j: Joules; None if the length of the window is unknown.
    """

    unit: SystemPart
    power_w: float
    energy_j: float | None = None


class Energy(msgspec.Struct, frozen=True, kw_only=True):
    """Energy over a window of time, by counters of the system: of everything that ran, not of a process.

    Apple's counters are a model of the chip's energy, so the figures are estimates.

    Attributes:
        tool: What read the counters: `powermetrics`, `macmon`.
        window_s: The length of the window in seconds; None if unknown.
        samples: Readings in the window.
        units: Energy by unit. Units that are absent are unknown, such as one whose counter stayed at 0.
        predictions: Predictions made in the window; None if unknown.
        thermal: Levels of thermal pressure that were reported, in order of occurrence.
    """

    tool: str
    window_s: float | None = None
    samples: int = 1
    units: tuple[UnitEnergy, ...] = ()
    predictions: int | None = None
    thermal: tuple[str, ...] = ()
    origin: Origin = "estimated"
