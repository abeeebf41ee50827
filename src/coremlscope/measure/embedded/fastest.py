"""Measures with the faster of the installed engines, after a quick trial of each."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import EngineError
from coremlscope.base.findings import Finding
from coremlscope.base.units import format_duration
from coremlscope.measure.contract import MeasuredModel, Measurer, Progress
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.runtime.engines import ENGINES

__all__ = ["FastestMeasurer", "installed_engines"]

#: Predictions of a trial, after those that are dropped.
_TRIED, _DROPPED = 10, 3


def installed_engines() -> tuple[str, ...]:
    """Returns the names of the engines whose libraries are installed, the default one first."""
    return tuple(name for name, *_ in ENGINES if importlib.util.find_spec(name) is not None)


class FastestMeasurer(msgspec.Struct, frozen=True):
    """Times a few predictions by each engine, and measures with the one whose median is lower.

    Attributes:
        measurer_of: Returns what measures with an engine.
        engines: The engines to try.
    """

    measurer_of: Callable[[str], Measurer]
    engines: tuple[str, ...] = msgspec.field(default_factory=installed_engines)

    def measure(
        self,
        subject: MeasuredModel,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Compiles, loads and runs a function repeatedly; see `Measurer`. A finding names the choice.

        Raises:
            EngineError: No engine runs the model.
        """
        if len(self.engines) == 1:
            return self.measurer_of(self.engines[0]).measure(
                subject, settings, inputs=inputs, progress=progress
            )
        trial = msgspec.structs.replace(
            settings,
            iterations=_TRIED,
            compile_iterations=1,
            load_iterations=1,
            warmups=_DROPPED,
            early=(),
            precision="fp32",
            times_operations=False,
        )
        tried: dict[str, Measurement] = {}
        failed: dict[str, EngineError] = {}
        for name in self.engines:
            try:
                tried[name] = self.measurer_of(name).measure(subject, trial, inputs=inputs)
            except EngineError as error:
                failed[name] = error
        medians = {name: one.predict.statistics.median for name, one in tried.items() if one.predict}
        if not medians:
            raise next(iter(failed.values()))
        best = min(medians, key=medians.__getitem__)
        measured = self.measurer_of(best).measure(subject, settings, inputs=inputs, progress=progress)
        others = [
            *(
                f"{tried[name].runtime.name} took {format_duration(median)}"
                for name, median in medians.items()
                if name != best
            ),
            *(f"{name} failed ({error.message})" for name, error in failed.items()),
        ]
        text = (
            f"{tried[best].runtime.name} was chosen after a trial of {_TRIED} predictions: its median was"
            f" {format_duration(medians[best])}; {'; '.join(others)}."
        )
        chosen = Finding(id="engine-chosen", severity="info", text=text, hint=f"--engine {best} repeats it")
        return msgspec.structs.replace(measured, findings=(chosen, *measured.findings))
