"""A measurer that replays given times, for tests and for demonstrations of reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from coremlscope.measure.contract import MeasuredModel, Progress
from coremlscope.results.measurement import Machine, Measurement, Phase, Runtime, Settings


class ScriptedMeasurer(msgspec.Struct, frozen=True, kw_only=True):
    """A measurer that replays given times without running a model.

    Attributes:
        label: The label of its measurements.
        runtime: The runtime to report.
        machine: The machine to report.
        load_s: Seconds of each load.
        predict_s: Seconds of each prediction, repeated to the requested number of predictions.
        has_compute_units: Whether the setting of compute units is in effect, as with Core ML.
        failures: Exceptions to raise instead of a measurement, by setting of compute units.
        measured_at: The time of its measurements.
    """

    label: str = "Scripted runtime on Example 9000"
    runtime: Runtime = msgspec.field(default_factory=lambda: Runtime("scripted", "Scripted runtime", "1"))
    machine: Machine = msgspec.field(default_factory=lambda: Machine(processor="Example 9000", cores=4))
    load_s: tuple[float, ...] = (0.5,)
    predict_s: tuple[float, ...] = (0.25,)
    has_compute_units: bool = True
    failures: Mapping[str, BaseException] = msgspec.field(default_factory=dict)
    measured_at: str = "2026-01-31T12:00:00Z"

    def measure(
        self,
        subject: MeasuredModel,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Replays the times, with phases only; see `Measurer`."""
        if settings.compute_units in self.failures:
            raise self.failures[settings.compute_units]
        predicted = [self.predict_s[index % len(self.predict_s)] for index in range(settings.iterations)]
        if progress is not None:
            progress("predict", settings.iterations, settings.iterations)
        return Measurement(
            label=self.label,
            runtime=self.runtime,
            machine=self.machine,
            settings=settings,
            compute_units=settings.compute_units if self.has_compute_units else "",
            load=Phase.of(self.load_s),
            predict=Phase.of(predicted),
            measured_at=self.measured_at,
        )
