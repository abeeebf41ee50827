"""Profiles many models under many settings, one after the other; what fails stops nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from coremlscope.assemble import assemble
from coremlscope.engines.host import power_mode
from coremlscope.errors import CoremlscopeError, EngineError
from coremlscope.findings import Finding
from coremlscope.forecast.planner import Forecast
from coremlscope.ir import Model
from coremlscope.measure.contract import Measurer, Progress, Subject, resolve_settings
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile

__all__ = ["FAILED", "INTERRUPTED", "fill_matrix"]

#: Ids of findings: a part of the work failed; Ctrl-C ended it.
FAILED, INTERRUPTED = "failed", "interrupted"

Found = TypeVar("Found")
#: Plans and estimates a model.
Forecaster = Callable[[Subject], Forecast]


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
    """Measures, plans and estimates model after model. A failure becomes a finding of the model's profile.

    A measurement in which the power mode changed is not kept: it would be the average of two modes.

    Args:
        models: What each is called, and what reads it.
        settings: How each is measured; one setting of compute units each.
        measurer: Measures.
        power_matters: False where not this machine does the work, so that its power mode says nothing.
        forecaster: Plans and estimates a model, if that is wanted.
        progress: Called after each repetition.
        changed: Called with all profiles whenever one of them changed.

    Returns:
        One profile for each model, with one measurement for each of the settings. After Ctrl-C as far as the
        work came; the first unfinished profile then has a finding with the id `INTERRUPTED`.
    """
    filling = _Filling([assemble(ModelSummary(path=name)) for name, _ in models], changed)
    filling.tell()
    index = 0
    try:
        for index, (_, read) in enumerate(models):
            subject = filling.attempt(index, "read", partial(_describe, read, settings[0]))
            if subject is None:
                continue
            filling.begin(index, subject)
            if forecaster is not None:
                found = filling.attempt(index, "plan and estimate", partial(forecaster, subject))
                filling.add_forecast(index, found)
            for wanted in settings:
                what = f"measure {wanted.compute_units}" if len(settings) > 1 else "measure"
                measured = filling.attempt(
                    index, what, partial(_measure, measurer, subject, wanted, progress, power_matters)
                )
                filling.add_measurement(index, measured)
    except KeyboardInterrupt:
        text = "Ctrl-C ended the work here: this and the following profiles are incomplete."
        filling.add_finding(index, Finding(id=INTERRUPTED, severity="warning", text=text))
    return tuple(filling.profiles)


def _describe(read: Callable[[], Model], settings: Settings) -> Subject:
    model = read()
    return Subject.of(model, resolve_settings(model, settings))


def _measure(
    measurer: Measurer, subject: Subject, settings: Settings, progress: Progress | None, power_matters: bool
) -> Measurement:
    wanted = resolve_settings(subject.model, settings)
    before = power_mode() if power_matters else ""
    measured = measurer.measure(subject, wanted, progress=progress)
    after = power_mode() if power_matters else ""
    if before != after:
        raise EngineError(
            f"the power mode changed from {before or 'unknown'} to {after or 'unknown'} while this was timed",
            "leave the power mode alone, and run it again",
        )
    return measured


@dataclasses.dataclass(frozen=True, slots=True)
class _Filling:
    """Profiles that are being filled."""

    profiles: list[Profile]
    changed: Callable[[tuple[Profile, ...]], None]

    def begin(self, index: int, subject: Subject) -> None:
        """Adds a model's description."""
        old = self.profiles[index]
        summary = dataclasses.replace(subject.summary, path=old.model.path)
        self._set(index, assemble(summary, subject.ops, findings=old.findings))

    def add_measurement(self, index: int, measurement: Measurement | None) -> None:
        """Adds what was measured."""
        if measurement is not None:
            old = self.profiles[index]
            measurements = (*old.measurements, measurement)
            self._set(index, dataclasses.replace(old, measurements=measurements))

    def add_forecast(self, index: int, forecast: Forecast | None) -> None:
        """Adds plans and estimates."""
        if forecast is not None:
            old = self.profiles[index]
            new = dataclasses.replace(
                old, plans=forecast.plans, kernels=forecast.kernels, estimates=forecast.estimates
            )
            self._set(index, new)

    def add_finding(self, index: int, finding: Finding) -> None:
        """Adds a remark."""
        old = self.profiles[index]
        self._set(index, dataclasses.replace(old, findings=(*old.findings, finding)))

    def attempt(self, index: int, what: str, work: Callable[[], Found]) -> Found | None:
        """The result of `work`; None, and a finding of the profile, where it fails."""
        try:
            return work()
        except CoremlscopeError as error:
            text = f"{what}: {error.message}"
            self.add_finding(
                index,
                Finding(id=FAILED, severity="error", text=text, hint=error.hint, exit_code=error.exit_code),
            )
            return None

    def tell(self) -> None:
        """Reports all profiles."""
        self.changed(tuple(self.profiles))

    def _set(self, index: int, profile: Profile) -> None:
        self.profiles[index] = profile
        self.tell()
