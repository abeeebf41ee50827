"""Profiles many models under many settings in sequence; a failure does not stop the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from coremlscope.assemble import assemble
from coremlscope.engines.host import power_mode
from coremlscope.errors import EngineError, known_error
from coremlscope.execution.sequence_lengths import length_findings
from coremlscope.findings import Finding
from coremlscope.forecast.planner import Forecast
from coremlscope.ir import Model
from coremlscope.measure.contract import MeasuredModel, Measurer, Progress, resolve_settings
from coremlscope.measure.partial import is_interrupted
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile

__all__ = ["FAILED", "INTERRUPTED", "fill_matrix"]

#: Ids of findings: a part of the work failed; Ctrl-C interrupted it.
FAILED, INTERRUPTED = "failed", "interrupted"

Found = TypeVar("Found")
#: Returns plans and estimates of a model.
Forecaster = Callable[[MeasuredModel], Forecast]


def fill_matrix(
    models: Sequence[tuple[str, Callable[[], Model]]],
    settings: Sequence[Settings],
    measurer: Measurer,
    *,
    power_matters: bool = True,
    forecaster: Forecaster | None = None,
    progress: Progress | None = None,
    changed: Callable[[tuple[Profile, ...]], None] = lambda _: None,
) -> tuple[Profile, ...]:
    """Measures, plans and estimates models. A failure becomes a finding of the model's profile.

    Measurements during which the power mode changed are discarded, because they would mix two modes.

    Args:
        models: The name of each model, and a function that reads it.
        settings: The settings of measurements, one for each setting of compute units.
        measurer: The measurer.
        power_matters: False if another machine runs the models, so that this machine's power mode is
            irrelevant.
        forecaster: Returns plans and estimates of a model; None for none.
        progress: Called after each repetition.
        changed: Called with all profiles whenever one of them changed.

    Returns:
        One profile for each model, with one measurement for each of the settings. After Ctrl-C, the profiles
        are incomplete, and the first unfinished one has a finding with the id `INTERRUPTED`.
    """
    filling = _Filling([assemble(ModelSummary(path=name)) for name, _ in models], changed)
    filling.report()
    index = 0
    try:
        for index, (_, read) in enumerate(models):
            subject = filling.attempt(index, "read", partial(_describe, read, settings[0]))
            if subject is None:
                continue
            filling.begin(index, subject)
            for finding in length_findings(subject.model, settings[0].shapes, subject.shapes):
                filling.add_finding(index, finding)
            if forecaster is not None:
                found = filling.attempt(index, "plan and estimate", partial(forecaster, subject))
                filling.add_forecast(index, found)
            for wanted in settings:
                what = f"measure {wanted.compute_units}" if len(settings) > 1 else "measure"
                measured = filling.attempt(
                    index, what, partial(_measure, measurer, subject, wanted, progress, power_matters)
                )
                filling.add_measurement(index, measured)
                if measured is not None and is_interrupted(measured):
                    raise KeyboardInterrupt
    except KeyboardInterrupt:
        text = "Interrupted: this and the following profiles are incomplete."
        filling.add_finding(index, Finding(id=INTERRUPTED, severity="warning", text=text))
    return tuple(filling.profiles)


def _describe(read: Callable[[], Model], settings: Settings) -> MeasuredModel:
    model = read()
    return MeasuredModel.of(model, resolve_settings(model, settings))


def _measure(
    measurer: Measurer,
    subject: MeasuredModel,
    settings: Settings,
    progress: Progress | None,
    power_matters: bool,
) -> Measurement:
    wanted = resolve_settings(subject.model, settings)
    before = power_mode() if power_matters else ""
    measured = measurer.measure(subject, wanted, progress=progress)
    after = power_mode() if power_matters else ""
    if before != after:
        raise EngineError(
            f"the power mode changed from {before or 'unknown'} to {after or 'unknown'} while this was timed",
            "keep the power mode unchanged, and run it again",
        )
    return measured


@dataclasses.dataclass(frozen=True, slots=True)
class _Filling:
    """Profiles that are being filled."""

    profiles: list[Profile]
    changed: Callable[[tuple[Profile, ...]], None]

    def begin(self, index: int, subject: MeasuredModel) -> None:
        """Adds a model's description."""
        old = self.profiles[index]
        summary = dataclasses.replace(subject.summary, path=old.model.path)
        self._set(index, assemble(summary, subject.ops, findings=old.findings))

    def add_measurement(self, index: int, measurement: Measurement | None) -> None:
        """Adds a measurement."""
        if measurement is not None:
            old = self.profiles[index]
            measurements = (*old.measurements, measurement)
            self._set(index, dataclasses.replace(old, measurements=measurements))

    def add_forecast(self, index: int, forecast: Forecast | None) -> None:
        """Adds plans and estimates."""
        if forecast is not None:
            old = self.profiles[index]
            new = dataclasses.replace(
                old,
                plans=forecast.plans,
                kernels=forecast.kernels,
                estimates=forecast.estimates,
                findings=(*old.findings, *forecast.findings),
            )
            self._set(index, new)

    def add_finding(self, index: int, finding: Finding) -> None:
        """Adds a finding."""
        old = self.profiles[index]
        self._set(index, dataclasses.replace(old, findings=(*old.findings, finding)))

    def attempt(self, index: int, what: str, work: Callable[[], Found]) -> Found | None:
        """Returns the result of `work`; if it fails, adds a finding to the profile and returns None."""
        try:
            return work()
        except Exception as error:  # one model must not stop the others
            known = known_error(error, self.profiles[index].model.path)
            text = f"{what}: {known.message}"
            self.add_finding(
                index,
                Finding(id=FAILED, severity="error", text=text, hint=known.hint, exit_code=known.exit_code),
            )
            return None

    def report(self) -> None:
        """Reports all profiles."""
        self.changed(tuple(self.profiles))

    def _set(self, index: int, profile: Profile) -> None:
        self.profiles[index] = profile
        self.report()
