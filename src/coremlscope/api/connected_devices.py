"""Measures models on a connected iPhone or iPad by the runner, as profiles. Not yet confirmed on a device."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec.structs

from coremlscope.api.answers import forecast_subject
from coremlscope.api.assemble import assemble, with_plans, with_plans_by_rules
from coremlscope.api.imported import import_files
from coremlscope.api.sources import Forecaster, failure_of
from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.writing import write_draft
from coremlscope.devices import find_device, product_name
from coremlscope.formats import container
from coremlscope.measure.contract import MeasuredModel, Progress
from coremlscope.measure.runner.phone import PhoneResults, measure_on_phone
from coremlscope.measure.runner.request import RunnerSettings
from coremlscope.model.ir import Model
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile


def measure_on_device(
    *sources: str | os.PathLike[str] | Model,
    on_device: str,
    team: str,
    settings: RunnerSettings | None = None,
    devices: Sequence[str] = (),
    os: str | None = None,
    progress: Progress | None = None,
    changed: Callable[[tuple[Profile, ...]], None] = lambda _: None,
) -> tuple[Profile, ...]:
    """Measures Core ML on an iPhone or iPad that is connected to this Mac. Not yet confirmed on a device.

    Args:
        *sources: The models, as paths or read. One that fails does not stop the others; its profile has a
            finding.
        on_device: The name or identifier of the device, or `any`.
        team: The development team that signs the app: `A1B2C3D4E5`.
        settings: What is measured; by default everything of `RunnerSettings`.
        devices: Chips or devices to plan and estimate for: `m1`, `iphone-15-pro`.
        os: The version of their systems; the newest known one of each by default.
        progress: Called with what happens, settings done, and how many there are.
        changed: Called with all profiles whenever one of them changed.

    Returns:
        A profile for each model, with a measurement for each setting and power mode, and Core ML's plans.

    Raises:
        UsageError: This is not a Mac, or an argument is wrong.
        MissingDependencyError: Xcode is not installed.
        EngineError: The app cannot be built, installed or started.
    """
    wanted = settings or RunnerSettings()
    chosen = [find_device(name, os) for name in devices]
    settings_of_plans = wanted.compute_units
    forecaster = partial(forecast_subject, devices=chosen, settings=settings_of_plans) if chosen else None
    opened = [_open(source) for source in sources]
    models = [one for _, one in opened if isinstance(one, Model)]
    found = None
    if models:
        found = measure_on_phone(models, wanted, name=on_device, team=team, progress=progress)
    profiles = tuple(_profiles(opened, found, forecaster))
    changed(profiles)
    return profiles


def _open(source: str | os.PathLike[str] | Model) -> tuple[str, Model | CoremlscopeError]:
    """Returns a model with its name, or why it cannot be read."""
    if isinstance(source, Model):
        return str(source.source or ""), source
    try:
        return str(source), container.read(source)
    except CoremlscopeError as error:
        return str(source), error


def _profiles(
    opened: Sequence[tuple[str, Model | CoremlscopeError]],
    found: PhoneResults | None,
    forecaster: Forecaster | None,
) -> list[Profile]:
    """One profile for each model, in order; those that could not be read have a finding."""
    names = iter(found.names if found is not None else ())
    profiles = []
    for name, model in opened:
        if isinstance(model, CoremlscopeError) or found is None:
            reason = (
                model if isinstance(model, CoremlscopeError) else CoremlscopeError("nothing was measured")
            )
            profiles.append(assemble(ModelSummary(path=name), findings=[failure_of("read", reason)]))
            continue
        try:
            profile = with_plans_by_rules(_profile(model, next(names), found), model)
        except CoremlscopeError as error:
            profile = assemble(ModelSummary(path=name), findings=[failure_of("measure", error)])
        else:
            profile = _forecast(profile, model, forecaster)
        profiles.append(profile)
    return profiles


def _profile(model: Model, name: str, found: PhoneResults) -> Profile:
    """Returns the profile of one model from the runner's results, without the name of the temporary file."""
    is_known = bool(product_name(found.record.device.identifier))
    with scratch_folder() as folder:
        file = Path(folder) / "results.json"
        write_draft(file, found.content)
        profile = import_files(
            [file], model, device=None if is_known else found.phone.model or None, name=name
        )
    measurements = tuple(
        msgspec.structs.replace(
            one,
            label=one.label.removesuffix(f", from {file.name}"),
            findings=tuple(finding for finding in one.findings if finding.id != "imported"),
        )
        for one in profile.measurements
    )
    return msgspec.structs.replace(profile, measurements=measurements)


def _forecast(profile: Profile, model: Model, forecaster: Forecaster | None) -> Profile:
    if forecaster is None:
        return profile
    try:
        found = forecaster(MeasuredModel(model, profile.model, profile.ops))
    except CoremlscopeError as error:
        findings = (*profile.findings, failure_of("plan and estimate", error))
        return msgspec.structs.replace(profile, findings=findings)
    extended = msgspec.structs.replace(
        profile,
        kernels=found.kernels,
        estimates=found.estimates,
        findings=(*profile.findings, *found.findings),
    )
    return with_plans(extended, [*profile.plans, *found.plans])
