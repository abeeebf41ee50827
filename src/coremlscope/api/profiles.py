"""Profiles: measured here, or read from files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import msgspec.structs

from coremlscope.api.models import Source, read
from coremlscope.base.errors import (
    CoremlscopeError,
    EngineError,
    MissingWeightsError,
    UnsupportedModelError,
    UsageError,
)
from coremlscope.base.findings import Finding
from coremlscope.devices.targets import Targets
from coremlscope.measure.effort import Effort
from coremlscope.model.subject import Subject

if TYPE_CHECKING:
    from coremlscope.base.processes.child import ChildLimits
    from coremlscope.devices import ComputeUnits, Device
    from coremlscope.measure.contract import MeasuredModel, Measurer, Progress
    from coremlscope.measure.coreml.kept import KeptFolders
    from coremlscope.measure.coreml.tracing import TraceMeasurer
    from coremlscope.model.ir import Model
    from coremlscope.planning.forecast.planner import Forecast
    from coremlscope.results.measurement import Precision, Settings
    from coremlscope.results.profile import Profile
    from coremlscope.runtime.execution.decoder_steps import DecoderStep


def profile(
    source: Source | Subject,
    *,
    devices: str | Sequence[str] | Targets = (),
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] | None = None,
    iterations: int | None = None,
    effort: Effort | None = None,
    precision: Precision = "fp32",
    engine: str | Measurer | None = None,
    trace: bool = False,
    other_predictions: bool = False,
    tokens: int | None = None,
    progress: Progress | None = None,
    keeps_failed: bool = False,
) -> Profile:
    """Compiles, loads and runs a model repeatedly, and reports the time of each operation.

    Args:
        source: The model; as `Subject` also with its function, shapes and values of its inputs, and whether
            absent weights are replaced.
        devices: Chips or devices to plan and estimate for, under every setting: `m1`, `iphone-15-pro`; as
            `Targets` also with the version of their systems.
        compute_units: The setting of compute units, `all` by default. Core ML is measured under each setting;
            with another engine the first one is recorded, and used for plans and estimates.
        iterations: Timed predictions, exactly; None for 50, or fewer once their median is known within 1 %
            or they have taken 30 s.
        effort: Other repetitions, threads and limits.
        precision: `fp16` adds a prediction in which fp16 results are rounded as on a device.
        engine: `coreml`, which is Core ML itself, on a Mac only and not yet confirmed on a device; or
            `onnxruntime`, `openvino`, `auto`, `coreai`; or what measures instead. None for that of the
            environment variable COREMLSCOPE_ENGINE, else `coreml` on a Mac, else `onnxruntime`; always
            `onnxruntime` if the model is not in a file, or with what only the embedded engine has (threads,
            synthetic weights, `precision`).
        trace: Measures Core ML a second time under each setting while Instruments records when each compute
            unit is busy; on a Mac with Xcode.
        other_predictions: Times Core ML's predictions into output backings and asynchronous predictions as
            well; on a Mac with pyobjc (the extra `mac`).
        tokens: For language models, also times so many predictions of one token with caches of several
            lengths, and predictions of many tokens.
        progress: Called with the phase, the repetitions done, and how many there will be.
        keeps_failed: Returns a profile without measurements if the model cannot be run, weights are absent,
            or the engine failed before anything was measured: the model, its plans and estimates, and the
            failure as a finding `not-measured` of severity `error`.

    Returns:
        A profile with one measurement, or one for each setting with Core ML, and plans and estimates of the
        devices. With Core ML also its own plan for this Mac, and ours.

    Raises:
        ModelError: The model cannot be read or run, or weights are absent.
        InputError: A value or a shape is not allowed.
        UsageError: An argument is wrong, or tokens of a model that is not a decoder are to be timed.
        EngineError: The engine failed, under every setting; otherwise a finding reports it.
        LimitError: A limit was reached before anything was measured.
        MissingDependencyError: Core ML is to be measured, and coremltools is not installed.
    """
    from coremlscope.measure.choice import choose_engine, choose_measurer, default_engine_findings
    from coremlscope.measure.coreml.kept import KeptFolders
    from coremlscope.measure.coreml.limits import core_ml_limits
    from coremlscope.measure.coreml.tracing import trace_measurer
    from coremlscope.measure.coreml.units import distinct_units
    from coremlscope.measure.generation import check_decoder
    from coremlscope.measure.repetitions import choose_repetitions
    from coremlscope.results.measurement import Settings

    subject, targets, effort = Subject.of(source), Targets.of(devices, compute_units), effort or Effort()
    model, chosen, units = read(subject.model), targets.find_devices(), targets.settings
    only_embedded = (
        effort.threads is not None or subject.random_weights or precision != "fp32" or model.source is None
    )
    named = engine if isinstance(engine, str) else None
    measurer = None if engine is None or isinstance(engine, str) else engine
    name = choose_engine(named, only_embedded=only_embedded)
    is_core_ml, kept = measurer is None and name == "coreml", KeptFolders()
    runs = measurer or choose_measurer(name, effort, other_predictions, only_embedded, kept)
    recorder = trace_measurer(is_core_ml, core_ml_limits(effort), kept) if trace else None
    given = Settings(
        compute_units=units[0],
        function=subject.function or "",
        seed=subject.seed,
        shapes=subject.bound_shapes,
        random_weights=subject.random_weights,
        precision=precision,
    )
    request = _Request(
        model=model,
        asked=choose_repetitions(given, iterations, effort),
        compute_units=distinct_units(units) if is_core_ml else units[:1],
        devices=chosen,
        inputs=subject.inputs,
        measurer=runs,
        recorder=recorder,
        limits=core_ml_limits(effort),
        kept=kept,
        is_core_ml=is_core_ml,
        remarks=() if measurer else default_engine_findings(named, only_embedded=only_embedded),
        steps=check_decoder(model, given) if tokens else (),
        tokens=tokens or 1,
        progress=progress,
    )
    return _profile(request, keeps_failed)


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `profile`, resolved.

    Attributes:
        model: The model.
        asked: The settings as asked for, without defaults of the model.
        compute_units: The settings of compute units to measure under.
        devices: The devices to plan and estimate for.
        inputs: Values of inputs by name; absent ones are synthetic.
        measurer: The measurer.
        recorder: Records Core ML with Instruments; None to record nothing.
        limits: When to give up on processes of Core ML.
        kept: Has what Core ML compiled.
        is_core_ml: Whether Core ML itself is measured.
        remarks: Findings on the choice of the engine.
        steps: Predictions of a decoder that are timed; empty for none.
        tokens: Number of predictions of one token.
        progress: Called with the phase, the repetitions done, and how many there will be.
    """

    model: Model
    asked: Settings
    compute_units: Sequence[ComputeUnits]
    devices: Sequence[Device]
    inputs: Mapping[str, Any]
    measurer: Measurer
    recorder: TraceMeasurer | None
    limits: ChildLimits
    kept: KeptFolders
    is_core_ml: bool
    remarks: Sequence[Finding]
    steps: Sequence[DecoderStep]
    tokens: int
    progress: Progress | None


def _profile(request: _Request, keeps_failed: bool) -> Profile:
    """Plans, estimates and measures a model; see `profile`."""
    from coremlscope.api.answers import forecast_profiled
    from coremlscope.api.assemble import assemble
    from coremlscope.api.core_ml_plans import with_plans_of_this_mac
    from coremlscope.measure.contract import MeasuredModel, prepare, resolve_settings
    from coremlscope.measure.generation import measure_generation
    from coremlscope.measure.partial import ends_work, interrupted, is_interrupted
    from coremlscope.measure.settings import measure_settings

    model, inputs, runs, progress = request.model, request.inputs, request.measurer, request.progress
    subject: MeasuredModel | None = None
    forecast, findings = None, list(request.remarks)
    with request.kept, runs if isinstance(runs, AbstractContextManager) else nullcontext():
        try:
            first = resolve_settings(model, request.asked, inputs)
            settings = [
                msgspec.structs.replace(first, compute_units=units) for units in request.compute_units
            ]
            prepare(runs, model, settings[0], inputs)
            subject = MeasuredModel.of(model, first)
            forecast, remarks = forecast_profiled(subject, first, request.devices)
            findings += remarks
            measurements, failures = measure_settings(
                runs, subject, settings, inputs=inputs, progress=progress, recorder=request.recorder
            )
        except (EngineError, MissingWeightsError, UnsupportedModelError) as error:
            if not keeps_failed:
                raise
            return _without_measurements(model, subject, forecast, findings, error)
        is_over = any(map(is_interrupted, measurements)) or any(map(ends_work, failures))
        steps = () if is_over else request.steps
        timings, lost = measure_generation(runs, model, steps, measurements, request.tokens, progress)
        if request.is_core_ml and not is_over and not any(map(ends_work, lost)):
            try:
                forecast, remarks = with_plans_of_this_mac(
                    forecast, subject, first, measurements, request.limits, request.kept, progress
                )
                findings += remarks
            except KeyboardInterrupt:
                findings.append(interrupted("Planning"))
    return assemble(
        subject.summary,
        subject.ops,
        measurements=measurements,
        forecast=forecast,
        timings=timings,
        findings=[*_on_lengths(subject.model, request.asked, inputs, first), *failures, *lost, *findings],
    )


def _without_measurements(
    model: Model,
    subject: MeasuredModel | None,
    forecast: Forecast | None,
    findings: Sequence[Finding],
    error: CoremlscopeError,
) -> Profile:
    """Returns the profile of a model that was not measured; `subject` is None if it was not described."""
    from coremlscope.api.assemble import assemble
    from coremlscope.measure.settings import not_measured
    from coremlscope.planning.hazards.summary import describe_model

    summary = describe_model(model, list_ops=True) if subject is None else subject.summary
    ops = None if subject is None else subject.ops
    return assemble(summary, ops, forecast=forecast, findings=[not_measured("The model", error), *findings])


def profile_power_modes(
    source: Source | Subject, *, announce: Callable[[str], None] = lambda _: None, **options: Any
) -> Profile:
    """Profiles a model twice on a Mac: in the present power mode, and in the one that it is switched to.

    Args:
        source: The model.
        announce: Called with the present power mode when it is to be switched.
        **options: Those of `profile`.

    Returns:
        One profile with the measurements of both modes, which are never averaged, and the first one's plans.

    Raises:
        UsageError: This machine does not report a power mode; or see `profile`.
        EngineError: See `profile`. What fails in the second mode is a finding.
        ModelError: See `profile`, also for other errors.
    """
    from coremlscope.measure.partial import ends_work, interrupted, is_interrupted
    from coremlscope.measure.power_modes import wait_for_other_mode
    from coremlscope.measure.settings import not_measured
    from coremlscope.runtime.engines.host import power_mode

    mode = power_mode()
    if not mode:
        wait_for_other_mode(mode)
    subject = Subject.of(source)
    subject = msgspec.structs.replace(subject, model=read(subject.model))
    first = profile(subject, **options)
    if any(map(is_interrupted, first.measurements)) or any(map(ends_work, first.findings)):
        return first
    announce(mode)
    try:
        wait_for_other_mode(mode)
        second = profile(subject, **options)
    except (EngineError, KeyboardInterrupt) as error:
        if isinstance(error, EngineError):
            lost = not_measured("The other power mode", error)
        else:
            lost = interrupted("Measuring in the other power mode")
        return msgspec.structs.replace(first, findings=(*first.findings, lost))
    return msgspec.structs.replace(
        first,
        measurements=(*first.measurements, *second.measurements),
        token_timings=(*first.token_timings, *second.token_timings),
        findings=tuple(dict.fromkeys((*first.findings, *second.findings))),
    )


def import_files(
    *files: str | os.PathLike[str],
    model: Source | None = None,
    device: str | None = None,
    os: str | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Reads what Core ML, Xcode and other tools wrote about a model. Nothing is measured here.

    Args:
        *files: Files of one model: `analytics.mil`, reports of Xcode (`.mlperf`), JSON of CoreMLProfiler and
            around coremltools, exports of Instruments, readings of power; or one saved profile.
        model: The model, whose operations those of the files are joined to.
        device: The device or chip that the files are from, where they do not say.
        os: Its system: `macOS 14.5`.
        progress: Called with `read`, megabytes that were read of a large file, and how many it has.

    Returns:
        A profile with the measurements and plans of all files. With a model and a known device and system,
        also with our own plan for it, and how far the two agree.

    Raises:
        UsageError: A file cannot be read, is of no known format or damaged, or is not of the model.
        ModelError: The model cannot be read, or a file is damaged.
    """
    from coremlscope.api.assemble import with_plans_by_rules
    from coremlscope.api.imported import import_files as import_paths

    known = None if model is None else read(model)
    profile = import_paths(files, known, device=device, system=os, progress=progress)
    if known is not None and device and any(log.agreement for log in profile.provider_logs):
        profile = _with_providers_of(profile, known, device)
    return profile if known is None or profile.agreements else with_plans_by_rules(profile, known)


def _with_providers_of(profile: Profile, model: Model, device: str) -> Profile:
    """Adds estimates of what ONNX Runtime wrote of, where the device is a known one."""
    from coremlscope.api.providers import add_providers
    from coremlscope.devices import find_device

    assert model.source is not None
    with contextlib.suppress(UsageError):
        return add_providers(profile, model.source, [find_device(device)])
    return profile


def _on_lengths(
    model: Model, asked: Settings, inputs: Mapping[str, Any] | None, resolved: Settings
) -> tuple[Finding, ...]:
    """Returns a finding on lengths of sequences that were neither requested nor given."""
    from coremlscope.runtime.execution.sequence_lengths import length_findings

    return length_findings(model, [*asked.shapes, *(inputs or {})], resolved.shapes)
