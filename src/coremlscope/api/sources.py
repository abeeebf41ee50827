"""Measures, plans and estimates models beside saved profiles, and compares them; a failure stops no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
import msgspec.structs

from coremlscope.api.assemble import assemble
from coremlscope.base.errors import CoremlscopeError, EngineError, known_error
from coremlscope.base.findings import Finding
from coremlscope.describe.comparison.plans import plan_views
from coremlscope.describe.comparison.profiles import (
    Comparison,
    Rounds,
    compare_plans,
    label_subjects,
)
from coremlscope.measure.contract import MeasuredModel, Measurer, Progress, resolve_settings
from coremlscope.measure.partial import ends_work, interrupted, is_interrupted
from coremlscope.model.ir import Model
from coremlscope.planning.answer.comparison import compare_judged, judge_plans
from coremlscope.planning.forecast.planner import Forecast
from coremlscope.results.measurement import Measurement, Phase, Settings
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile, exit_code_of
from coremlscope.runtime.engines.host import power_mode
from coremlscope.runtime.execution.sequence_lengths import length_findings

if TYPE_CHECKING:
    from coremlscope.measure.embedded.isolated import IsolatedMeasurer
    from coremlscope.measure.embedded.measurer import EngineMeasurer

#: The id of the finding that says that a part of the work failed.
FAILED = "failed"

Found = TypeVar("Found")
#: Returns plans and estimates of a model.
Forecaster: TypeAlias = Callable[[MeasuredModel], Forecast]
#: A model, a profile that is there already, or why a model could not be read.
Source: TypeAlias = "Model | Profile | CoremlscopeError"
#: Returns what measures a model, and under which settings: at least one, also if nothing measures it.
Choice: TypeAlias = "Callable[[Model], tuple[Measurer | None, Sequence[Settings]]]"


def fill_profiles(
    sources: Sequence[tuple[str, Source]],
    choose: Choice,
    *,
    inputs: Mapping[str, Any] | None = None,
    forecaster: Forecaster | None = None,
    finish: Callable[[MeasuredModel, Profile], Profile] = lambda _, profile: profile,
    progress: Progress | None = None,
    changed: Callable[[tuple[Profile, ...]], None] = lambda _: None,
) -> tuple[Profile, ...]:
    """Measures, plans and estimates models. A failure becomes a finding of the model's profile.

    Measurements during which the power mode changed are discarded, because they would mix two modes.

    Args:
        sources: The models, each with its name; profiles stay as they are.
        choose: Chooses what measures a model, and the settings.
        inputs: Values of inputs by name, for every model that has them; absent ones are synthetic.
        forecaster: Returns plans and estimates of a model; None for none.
        finish: Completes the profile of a model that was measured.
        progress: Called after each repetition.
        changed: Called with all profiles whenever one of them changed.

    Returns:
        One profile for each source, with one measurement for each of the settings. After Ctrl-C, the profiles
        are incomplete, and the first unfinished one has a finding `interrupted`.

    Raises:
        CoremlscopeError: Nothing of any source is known.
    """
    filling = _Filling(
        [one if isinstance(one, Profile) else assemble(ModelSummary(path=name)) for name, one in sources],
        changed,
    )
    filling.report()
    index = 0
    try:
        for index, (_, source) in enumerate(sources):
            if isinstance(source, Profile):
                continue
            found = filling.attempt(index, "read", partial(_describe, source, choose, inputs))
            if found is None:
                continue
            subject, measurer, settings, given = found
            filling.begin(index, subject)
            for finding in length_findings(subject.model, [*settings[0].shapes, *given], subject.shapes):
                filling.add_finding(index, finding)
            if forecaster is not None:
                forecast = filling.attempt(index, "plan and estimate", partial(forecaster, subject))
                filling.add_forecast(index, forecast)
            for wanted in settings:
                if measurer is None:
                    break
                what = f"measure {wanted.compute_units}" if len(settings) > 1 else "measure"
                work = partial(_measure, measurer, subject, wanted, given, progress)
                measured = filling.attempt(index, what, work)
                filling.add_measurement(index, measured)
                if measured is not None and is_interrupted(measured):
                    raise KeyboardInterrupt
            finished = finish(subject, filling.profiles[index])
            if finished is not filling.profiles[index]:
                filling.set(index, finished)
    except KeyboardInterrupt as error:
        filling.add_finding(index, failure_of("", error))
    if filling.errors and not any(profile.model.container or profile.plans for profile in filling.profiles):
        raise filling.errors[0]
    return tuple(filling.profiles)


def _describe(
    source: Model | CoremlscopeError, choose: Choice, inputs: Mapping[str, Any] | None
) -> tuple[MeasuredModel, Measurer | None, Sequence[Settings], dict[str, Any]]:
    if not isinstance(source, Model):
        raise source
    measurer, settings = choose(source)
    functions = source.description.functions.values()
    names = {feature.name for function in functions for feature in function.inputs}
    given = {name: value for name, value in (inputs or {}).items() if name in names}
    subject = MeasuredModel.of(source, resolve_settings(source, settings[0], given))
    return subject, measurer, settings, given


def _measure(
    measurer: Measurer,
    subject: MeasuredModel,
    settings: Settings,
    inputs: Mapping[str, Any],
    progress: Progress | None,
) -> Measurement:
    wanted = resolve_settings(subject.model, settings, inputs)
    before = power_mode()
    measured = measurer.measure(subject, wanted, inputs=inputs, progress=progress)
    after = power_mode()
    if before != after:
        raise EngineError(
            f"the power mode changed from {before or 'unknown'} to {after or 'unknown'} while this was timed",
            "keep the power mode unchanged, and run it again",
        )
    return measured


class _Filling(msgspec.Struct, frozen=True):
    """Profiles that are being filled."""

    profiles: list[Profile]
    changed: Callable[[tuple[Profile, ...]], None]
    errors: list[CoremlscopeError] = msgspec.field(default_factory=list)

    def begin(self, index: int, subject: MeasuredModel) -> None:
        """Adds a model's description."""
        old = self.profiles[index]
        summary = msgspec.structs.replace(subject.summary, path=old.model.path)
        self.set(index, assemble(summary, subject.ops, findings=old.findings))

    def add_measurement(self, index: int, measurement: Measurement | None) -> None:
        """Adds a measurement."""
        if measurement is not None:
            old = self.profiles[index]
            measurements = (*old.measurements, measurement)
            self.set(index, msgspec.structs.replace(old, measurements=measurements))

    def add_forecast(self, index: int, forecast: Forecast | None) -> None:
        """Adds plans and estimates."""
        if forecast is not None:
            old = self.profiles[index]
            new = msgspec.structs.replace(
                old,
                plans=forecast.plans,
                kernels=forecast.kernels,
                estimates=forecast.estimates,
                rates=forecast.rates,
                answers=forecast.answers,
                findings=(*old.findings, *forecast.findings),
            )
            self.set(index, new)

    def add_finding(self, index: int, finding: Finding) -> None:
        """Adds a finding."""
        old = self.profiles[index]
        self.set(index, msgspec.structs.replace(old, findings=(*old.findings, finding)))

    def attempt(self, index: int, what: str, work: Callable[[], Found]) -> Found | None:
        """Returns the result of `work`; if it fails, adds a finding to the profile and returns None."""
        try:
            return work()
        except Exception as error:  # one model must not stop the others
            known = known_error(error, self.profiles[index].model.path)
            self.errors.append(known)
            self.add_finding(index, failure_of(what, known))
            return None

    def report(self) -> None:
        """Reports all profiles."""
        self.changed(tuple(self.profiles))

    def set(self, index: int, profile: Profile) -> None:
        """Replaces a profile."""
        self.profiles[index] = profile
        self.report()


def interleave(
    sources: Sequence[tuple[str, Source]],
    profiles: Sequence[Profile],
    measurer: EngineMeasurer | IsolatedMeasurer,
    *,
    inputs: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[Profile, ...], list[Rounds]]:
    """Times models in interleaved rounds, because the machine may slow down between one profile and the next.

    Args:
        sources: The sources of the profiles.
        profiles: The profiles; those of models that the measurer measured are timed again.
        measurer: The measurer.
        inputs: Values of inputs by name.
        progress: Called after each repetition.

    Returns:
        The profiles, with these samples of predictions; and the seconds of each round, if there are two
        models. A failure becomes a finding of the first of them.
    """
    rounds: list[Rounds] = [()] * len(profiles)
    timed = list(profiles)
    models = {
        index: one
        for index, ((_, one), profile) in enumerate(zip(sources, profiles, strict=True))
        if isinstance(one, Model) and _is_whole(profile)
    }
    if len(models) < 2 or any(ends_work(finding) for one in profiles for finding in one.findings):
        return tuple(profiles), rounds
    try:
        taken = measurer.time_interleaved(
            list(models.values()),
            [profiles[index].measurement.settings for index in models],
            inputs=inputs,
            progress=progress,
        )
    except (CoremlscopeError, KeyboardInterrupt) as error:
        filling = _Filling(timed, lambda _: None)
        filling.add_finding(min(models), failure_of("time in rounds", error))
        return tuple(timed), rounds
    for (index, _), seconds in zip(models.items(), taken, strict=True):
        rounds[index] = seconds
        measured = profiles[index].measurement
        warmups = measured.predict.warmups_s if measured.predict is not None else ()
        phase = Phase.of([s for round_ in seconds for s in round_], warmups)
        measured = msgspec.structs.replace(measured, predict=phase)
        timed[index] = msgspec.structs.replace(profiles[index], measurements=(measured,))
    return tuple(timed), rounds


def _is_whole(profile: Profile) -> bool:
    """True if an embedded engine measured all of it: Core ML measures models one after the other."""
    measured = profile.measurements
    return len(measured) == 1 and measured[0].runtime.id != "coreml" and measured[0].partial is None


def failure_of(what: str, error: CoremlscopeError | KeyboardInterrupt) -> Finding:
    """Returns the finding that reports what failed, or that Ctrl-C ended the work."""
    if isinstance(error, KeyboardInterrupt):
        return interrupted("Measuring this and the following models")
    return Finding(
        id=FAILED,
        severity="error",
        text=f"{what}: {error.message}",
        hint=error.hint,
        exit_code=error.exit_code,
    )


def compare_sources(
    sources: Sequence[tuple[str, Source]],
    profiles: Sequence[Profile],
    *,
    rounds: Sequence[Rounds] = (),
    devices: Sequence[str] = (),
    settings: Sequence[str] = (),
) -> Comparison:
    """Compares the profiles of sources with the first; the plans of a single one with each other.

    Those that could not be read are compared with nothing, and nothing is compared if the first could not.

    Args:
        sources: The sources.
        profiles: Their profiles.
        rounds: The seconds of interleaved rounds of each; empty for those that were not timed so.
        devices: Names of devices whose plans in a single saved profile are compared; all if empty.
        settings: The settings under which plans are compared.
    """
    if len(sources) == 1:
        views = plan_views(profiles[0], settings)
        chosen = [view for view in views if not devices or view.plan.device in devices]
        places = [(view.plan.device, view.plan.os, view.compute_units) for view in chosen]
        found = compare_plans(profiles[0], chosen, judge_plans(profiles[0], places) if chosen else ())
    elif not _is_described(profiles[0]):
        found = Comparison((), ())
    else:
        known = [index for index, profile in enumerate(profiles) if _is_described(profile)]
        labels = label_subjects([name for name, _ in sources])
        found = compare_judged(
            [profiles[index] for index in known],
            rounds=[rounds[index] for index in known] if rounds else (),
            labels=[labels[index] for index in known],
            settings=settings,
        )
    made = [profile for (_, one), profile in zip(sources, profiles, strict=True) if one is not profile]
    return msgspec.structs.replace(found, profiles=tuple(profiles), exit_code=exit_code_of(made))


def _is_described(profile: Profile) -> bool:
    """False for a model that could not be read."""
    return bool(profile.model.container or profile.ops.id or profile.measurements)
