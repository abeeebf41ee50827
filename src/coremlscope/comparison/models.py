"""Compares models and profiles; models are measured and planned first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from coremlscope.assemble import assemble
from coremlscope.comparison.plans import plan_views
from coremlscope.comparison.profiles import (
    Comparison,
    Rounds,
    compare_plans,
    compare_profiles,
    label_subjects,
)
from coremlscope.cost.latency.own import NOTHING_OWN, Own
from coremlscope.devices import ComputeUnits, Device
from coremlscope.errors import UsageError
from coremlscope.findings import Finding
from coremlscope.forecast.planner import Forecast, forecast
from coremlscope.ir import Model
from coremlscope.measure.contract import MeasuredModel, Progress, resolve_settings
from coremlscope.measure.embedded.isolated import IsolatedMeasurer
from coremlscope.measure.embedded.measurer import EngineMeasurer
from coremlscope.measure.partial import check_whole
from coremlscope.results.measurement import Phase, Settings
from coremlscope.results.profile import Profile

__all__ = ["compare_on_devices", "compare_sources"]


def compare_sources(
    sources: Sequence[Model | Profile],
    settings: Settings,
    *,
    names: Sequence[str] = (),
    devices: Sequence[Device] = (),
    compute_units: Sequence[ComputeUnits] = ("all",),
    inputs: Mapping[str, Any] | None = None,
    measurer: EngineMeasurer | IsolatedMeasurer | None = None,
    progress: Progress | None = None,
    own: Own = NOTHING_OWN,
    findings: Sequence[Finding] = (),
) -> Comparison:
    """Compares models, which are profiled first, and existing profiles.

    Predictions of several models are also timed in interleaved rounds, and these times are compared,
    because the machine may slow down between one profile and the next.

    Args:
        sources: Two or more; the first is the base.
        settings: The settings of the measurement of each model.
        names: Names of the sources; if empty, the paths from which they were read.
        devices: Devices for which plans and estimates are also compared.
        compute_units: The settings of compute units for plans and estimates.
        inputs: Values of inputs by name, for every model that has them; absent ones are synthetic.
        measurer: Measures models; None for the default engine.
        progress: Called after each repetition.
        own: A user's own measurements, which refine estimates of models; those of profiles stay as they are.
        findings: What to remark on the estimates of models.

    Raises:
        CoremlscopeError: A model cannot be run; see `contract.Measurer`.
    """
    chosen = measurer or EngineMeasurer()
    profiles: list[Profile] = []
    for source in sources:
        if isinstance(source, Model):
            given = _of(source, inputs)
            wanted = resolve_settings(source, settings, given)
            subject = MeasuredModel.of(source, wanted)
            found = _on_devices(subject, wanted, devices, compute_units, own)
            measured = chosen.measure(subject, wanted, inputs=given, progress=progress)
            check_whole(measured, subject.summary.path or "the model")
            source = assemble(
                subject.summary, subject.ops, measurements=[measured], forecast=found, findings=findings
            )
        profiles.append(source)
    rounds = _interleave(sources, profiles, inputs, chosen, progress)
    return compare_profiles(
        profiles,
        rounds=rounds,
        labels=label_subjects(names) if names else (),
        settings=compute_units,
    )


def _interleave(
    sources: Sequence[Model | Profile],
    profiles: list[Profile],
    inputs: Mapping[str, Any] | None,
    measurer: EngineMeasurer | IsolatedMeasurer,
    progress: Progress | None,
) -> list[Rounds]:
    """Times interleaved rounds; the profiles of models get these samples of predictions."""
    rounds: list[Rounds] = [()] * len(sources)
    models = [(index, source) for index, source in enumerate(sources) if isinstance(source, Model)]
    if len(models) < 2:
        return rounds
    taken = measurer.time_interleaved(
        [model for _, model in models],
        [profiles[index].measurement.settings for index, _ in models],
        inputs=inputs,
        progress=progress,
    )
    for (index, _), seconds in zip(models, taken, strict=True):
        rounds[index] = seconds
        measured = profiles[index].measurement
        warmups = measured.predict.warmups_s if measured.predict is not None else ()
        phase = Phase.of([s for round_ in seconds for s in round_], warmups)
        timed = dataclasses.replace(measured, predict=phase)
        profiles[index] = dataclasses.replace(profiles[index], measurements=(timed,))
    return rounds


def compare_on_devices(
    source: Model | Profile,
    settings: Settings,
    devices: Sequence[Device],
    compute_units: Sequence[ComputeUnits],
    *,
    own: Own = NOTHING_OWN,
    findings: Sequence[Finding] = (),
) -> Comparison:
    """Compares a model's plans and estimates for devices and settings with the first of them.

    Args:
        source: The model, or a profile with plans.
        settings: The function and its shapes.
        devices: The devices; if empty, those of the profile.
        compute_units: The settings of compute units.
        own: A user's own measurements, which refine estimates of a model; those of a profile stay.
        findings: What to remark on the estimates of a model.

    Raises:
        UsageError: There are fewer than two plans to compare.
        CoremlscopeError: The model cannot be planned; see `forecast`.
    """
    if isinstance(source, Profile):
        names = {device.name for device in devices}
        profile = source
        views = [v for v in plan_views(source, compute_units) if not names or v.plan.device in names]
    else:
        wanted = resolve_settings(source, settings)
        subject = MeasuredModel.of(source, wanted)
        found = _on_devices(subject, wanted, devices, compute_units, own)
        profile = assemble(subject.summary, subject.ops, forecast=found, findings=findings)
        views = plan_views(profile, compute_units)
    if len(views) < 2:
        raise UsageError(
            "there is nothing to compare with",
            "name another model or profile, or two devices or settings: --device m1,a14",
        )
    return compare_plans(profile, views)


def _on_devices(
    subject: MeasuredModel,
    settings: Settings,
    devices: Sequence[Device],
    compute_units: Sequence[ComputeUnits],
    own: Own,
) -> Forecast | None:
    if not devices:
        return None
    return forecast(
        subject.model,
        subject.ops,
        devices,
        compute_units,
        function=settings.function or None,
        shapes=settings.shapes,
        with_advice=False,
        own=own,
    )


def _of(model: Model, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    names = {feature.name for function in model.description.functions.values() for feature in function.inputs}
    return {name: value for name, value in (inputs or {}).items() if name in names}
