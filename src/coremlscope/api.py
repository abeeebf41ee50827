"""The public functions: short compositions of the packages below."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from coremlscope.devices.unit import SETTINGS
from coremlscope.devices.unit import choose_settings as _settings
from coremlscope.errors import UnsupportedModelError, UsageError
from coremlscope.findings import Finding
from coremlscope.ir import Model, Pipeline

if TYPE_CHECKING:
    from coremlscope.comparison.profiles import Comparison
    from coremlscope.cost.latency.own import Own
    from coremlscope.devices import ComputeUnits, Device
    from coremlscope.execution.pipeline import PipelinePredictor
    from coremlscope.execution.predictor import Predictor
    from coremlscope.forecast.planner import Forecast
    from coremlscope.measure.contract import Measurer, Progress, Subject
    from coremlscope.results.bundle import BundleSummary
    from coremlscope.results.calibration import CalibrationReport
    from coremlscope.results.evidence import Evidence, OpForm
    from coremlscope.results.measurement import Precision, Settings
    from coremlscope.results.model import ModelSummary
    from coremlscope.results.profile import Profile

__all__ = [
    "Source",
    "calibrate",
    "compare",
    "compile",
    "estimate",
    "evidence",
    "export",
    "import_files",
    "inspect",
    "list_models",
    "matrix",
    "open",
    "plan",
    "plan_by_core_ml",
    "predict",
    "profile",
    "profile_power_modes",
    "read",
]

#: Names the engine that measures where none is named.
_ENGINE_VARIABLE = "COREMLSCOPE_ENGINE"

#: The source of a model: a path, the bytes of a specification, or a model that was already read.
Source = str | os.PathLike[str] | bytes | Model


def read(source: Source) -> Model:
    """Reads a model; returns a model that was already read unchanged.

    Raises:
        NotAModelError: The path does not exist or does not contain a Core ML model.
        CorruptModelError: The model is damaged.
    """
    if isinstance(source, Model):
        return source
    from coremlscope.formats import container

    return container.read(source)


def inspect(
    source: Source,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    function: str | None = None,
    list_ops: bool = False,
) -> ModelSummary:
    """Describes a model without running it. Weights may be absent.

    Args:
        source: The model.
        shapes: Shapes of flexible inputs, instead of the defaults.
        function: The function to put first, instead of the default one.
        list_ops: Lists every operation of that function.

    Raises:
        ModelError: The model cannot be read.
        InputError: A shape is not allowed.
        UsageError: The model has no such function.
    """
    from coremlscope.describe.model import describe_model

    return describe_model(read(source), shapes, function=function, list_ops=list_ops)


def list_models(path: str | os.PathLike[str]) -> BundleSummary | None:
    """Lists the models in an app, an archive, a folder or an ExecuTorch program.

    The `source` of a listed model is what other functions take: `App.ipa#Detector.mlmodelc`.

    Returns:
        The models, or None for a path that is itself a model.

    Raises:
        NotAModelError: The path does not exist.
        ModelError: The file is damaged or cannot be read.
    """
    from coremlscope.describe.bundle import describe_bundle
    from coremlscope.formats import container

    bundle = container.open_with_models(Path(path))
    return None if bundle is None else describe_bundle(bundle)


def profile(
    source: Source,
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Any] | None = None,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "all",
    devices: str | Sequence[str] = (),
    os: str | None = None,
    iterations: int | None = None,
    compile_iterations: int | None = None,
    load_iterations: int | None = None,
    warmups: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    random_weights: bool = False,
    precision: Precision = "fp32",
    engine: str | None = None,
    trace: bool = False,
    other_predictions: bool = False,
    tokens: int | None = None,
    isolate: bool = False,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    measurer: Measurer | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Compiles, loads and runs a model repeatedly, and reports the time of each operation.

    Args:
        source: The model.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.
        inputs: Values of inputs by name; absent ones are synthetic.
        compute_units: The setting of compute units. Core ML is measured under each setting; with another
            engine the first one is recorded, and used for plans and estimates.
        devices: Chips or devices to plan and estimate for, under every setting: `m1`, `iphone-15-pro`.
        os: The version of their systems; the newest known one of each by default.
        iterations: Timed predictions, exactly; None for 50, or fewer once their median is known within 1 %
            or they have taken 30 s.
        compile_iterations: Timed compilations, exactly; None for as many as fit into 10 s, 10 at most.
        load_iterations: Timed loads, likewise.
        warmups: Predictions before the timed ones; None for as many as it takes.
        threads: Threads that work on one operation; None for one per physical core.
        seed: Seed of synthetic inputs and weights.
        random_weights: Replaces absent weights by synthetic ones.
        precision: `fp16` adds a prediction in which fp16 results are rounded as on a device.
        engine: `coreml`, which is Core ML itself, on a Mac only and not yet confirmed on a device; or
            `onnxruntime`. None for that of the environment variable COREMLSCOPE_ENGINE, else `coreml` on a
            Mac, else `onnxruntime`; always `onnxruntime` if the model is not in a file, or with arguments
            that only the embedded engine has (`threads`, `random_weights`, `precision`).
        trace: Measures Core ML a second time under each setting while Instruments records when each compute
            unit is busy; on a Mac with Xcode, and not yet confirmed on a device.
        other_predictions: Times Core ML's predictions into output backings and asynchronous predictions as
            well; on a Mac with pyobjc (the extra `mac`), and not yet confirmed on a device.
        tokens: For language models, also times so many predictions of one token with caches of several
            lengths, and predictions of many tokens.
        isolate: Measures with an embedded engine in a process of its own, as `coremlscope profile` does:
            what was measured before the engine crashes, reaches a limit or Ctrl-C is kept, in a measurement
            that is `partial`. The model must be in a file, which is read again there. Core ML always has
            a process of its own.
        timeout_s: Seconds that each measurement may take; implies `isolate`.
        memory_bytes: Resident memory that the process of a measurement may take; implies `isolate`.
        measurer: The measurer to use instead of an engine.
        progress: Called with the phase, the repetitions done, and how many there will be.

    Returns:
        A profile with one measurement, or one for each setting with Core ML, and plans and estimates of the
        devices. With Core ML also its own plan for this Mac, and ours.

    Raises:
        ModelError: The model cannot be read or run, or weights are absent.
        InputError: A value or a shape is not allowed.
        UsageError: An argument is wrong, or tokens of a model that is not a decoder are to be timed.
        EngineError: The engine failed, under every setting; otherwise a finding tells it.
        LimitError: A limit was reached before anything was measured.
        MissingDependencyError: Core ML is to be measured, and coremltools is not installed.
    """
    from coremlscope.assemble import assemble
    from coremlscope.measure.choice import choose_measurer
    from coremlscope.measure.contract import Subject, resolve_settings
    from coremlscope.measure.coreml.tracing import trace_measurer
    from coremlscope.measure.generation import check_decoder, measure_generation
    from coremlscope.measure.partial import is_interrupted
    from coremlscope.measure.repetitions import choose_repetitions
    from coremlscope.measure.settings import measure_settings
    from coremlscope.results.measurement import Settings

    model, chosen, units = read(source), _devices(devices, os), _settings(compute_units)
    only_embedded = threads is not None or random_weights or precision != "fp32" or model.source is None
    name = engine or ("onnxruntime" if only_embedded else _default_engine())
    is_core_ml = measurer is None and name == "coreml"
    limits = (timeout_s, memory_bytes)
    runs = measurer or choose_measurer(name, threads, isolate, limits, other_predictions, only_embedded)
    recorder = trace_measurer(is_core_ml) if trace else None
    given = Settings(
        compute_units=units[0],
        function=function or "",
        warmups=warmups,
        seed=seed,
        shapes={name: tuple(shape) for name, shape in (shapes or {}).items()},
        random_weights=random_weights,
        precision=precision,
    )
    asked = choose_repetitions(given, iterations, compile_iterations, load_iterations)
    steps = check_decoder(model, given) if tokens else ()
    with runs if isinstance(runs, AbstractContextManager) else nullcontext():
        first = resolve_settings(model, asked, inputs)
        settings = [dataclasses.replace(first, compute_units=u) for u in (units if is_core_ml else units[:1])]
        subject = Subject.of(model, first)
        forecast, findings = _forecast_or_say_why(subject, first, chosen)
        measurements, failures = measure_settings(
            runs, subject, settings, inputs=inputs, progress=progress, recorder=recorder
        )
        timings, lost = measure_generation(runs, model, steps, measurements, tokens or 1, progress)
    if is_core_ml and not is_interrupted(measurements[-1]):
        from coremlscope.on_this_mac import with_plans_of_this_mac

        forecast, remarks = with_plans_of_this_mac(forecast, subject, first, measurements)
        findings += remarks
    return assemble(
        subject.summary,
        subject.ops,
        measurements=measurements,
        forecast=forecast,
        timings=timings,
        findings=[*_on_lengths(asked, inputs, first), *failures, *lost, *findings],
    )


def profile_power_modes(
    source: Source, *, announce: Callable[[str], None] = lambda _: None, **options: Any
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
        EngineError: The power mode was not switched within 15 minutes; or see `profile`.
        ModelError: See `profile`, also for other errors.
    """
    from coremlscope.engines.host import power_mode
    from coremlscope.measure.partial import is_interrupted
    from coremlscope.measure.power_modes import wait_for_other_mode

    mode = power_mode()
    if not mode:
        wait_for_other_mode(mode)
    model = read(source)
    first = profile(model, **options)
    if any(map(is_interrupted, first.measurements)):
        return first
    announce(mode)
    wait_for_other_mode(mode)
    second = profile(model, **options)
    return dataclasses.replace(
        first,
        measurements=(*first.measurements, *second.measurements),
        token_timings=(*first.token_timings, *second.token_timings),
        findings=tuple(dict.fromkeys((*first.findings, *second.findings))),
    )


def _on_lengths(asked: Settings, inputs: Mapping[str, Any] | None, resolved: Settings) -> tuple[Finding, ...]:
    """Returns a finding on lengths of sequences that were neither requested nor given."""
    from coremlscope.execution.sequence_lengths import length_findings

    return length_findings([*asked.shapes, *(inputs or {})], resolved.shapes)


def _default_engine() -> str:
    """`coreml` on a Mac, unless COREMLSCOPE_ENGINE names another engine; else `onnxruntime`."""
    return os.environ.get(_ENGINE_VARIABLE) or ("coreml" if sys.platform == "darwin" else "onnxruntime")


def _forecast_or_say_why(
    subject: Subject, settings: Settings, devices: Sequence[Device]
) -> tuple[Forecast | None, list[Finding]]:
    """Plans and estimates under every setting, the requested one first; a failure becomes a finding."""
    from coremlscope.forecast.generation import estimate_generation
    from coremlscope.forecast.planner import forecast
    from coremlscope.own_measurements.report import use_own

    if not devices:
        return None, []
    own, findings = use_own()
    function, wanted = settings.function or None, settings.compute_units
    units = sorted(SETTINGS, key=lambda setting: setting != wanted)
    try:
        found = forecast(
            subject.model,
            subject.ops,
            devices,
            units,
            function=function,
            shapes=settings.shapes,
            own=own,
        )
    except UnsupportedModelError as error:
        text = f"No plan and no estimate: {error.message}."
        return None, [Finding(id="not-estimated", severity="info", text=text, hint=error.hint)]
    rates = estimate_generation(
        subject.model,
        devices,
        [units[0]],
        function=function,
        shapes=settings.shapes,
        own=own,
        known=[one for one in found.estimates if one.compute_units == units[0]],
    )
    return dataclasses.replace(found, rates=rates), list(findings)


def plan(
    source: Source,
    devices: str | Sequence[str],
    *,
    os: str | None = None,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "all",
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Profile:
    """Plans which compute unit Core ML would run each operation on, at what planned cost, and why.

    Args:
        source: The model. Weights may be absent.
        devices: Chips or devices: `m1`, `iphone-15-pro`.
        os: The version of their systems; the newest known one of each by default.
        compute_units: What an app allows: `all`, `cpu_and_ne`, `cpu_and_gpu`, `cpu_only`, several of them, or
            `every` for all four.
        shapes: Shapes of flexible inputs of the default function, instead of the defaults.

    Returns:
        A profile with a plan for each device, of every function.

    Raises:
        ModelError: The model cannot be read, or has no operations to plan.
        InputError: A shape is not allowed.
        UsageError: A device or setting is unknown.
    """
    from coremlscope.assemble import assemble
    from coremlscope.describe.model import describe_model, list_operations
    from coremlscope.execution.sequence_lengths import choose_lengths, length_findings
    from coremlscope.forecast.planner import forecast

    model, chosen, settings = read(source), _devices(devices, os), _settings(compute_units)
    default = model.description.default
    names = sorted(model.description.functions, key=lambda name: name != default)
    given, shapes = shapes or {}, choose_lengths(model, default, shapes or {})
    ops = list_operations(model, shapes, functions=names)
    found = forecast(model, ops, chosen, settings, every_function=True, shapes=shapes, with_estimates=False)
    findings = length_findings(given, shapes)
    return assemble(describe_model(model, shapes), ops, forecast=found, findings=findings)


def estimate(
    source: Source,
    devices: str | Sequence[str],
    *,
    os: str | None = None,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "all",
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    explain: bool = False,
    calibrated: bool = True,
) -> Profile:
    """Estimates the time of a prediction on devices, with an interval.

    Args:
        source: The model. Weights may be absent.
        devices: Chips or devices: `m1`, `iphone-15-pro`.
        os: The version of their systems; the newest known one of each by default.
        compute_units: What an app allows: `all`, `cpu_and_ne`, `cpu_and_gpu`, `cpu_only`, several of them, or
            `every` for all four.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.
        explain: Adds the published latencies that are nearest to each estimate.
        calibrated: Uses your own measurements of the devices, see `calibrate`.

    Returns:
        A profile with an estimate for every device and setting, in that order, and the plans on which they
        are based.

    Raises:
        ModelError: The model cannot be read, or models of its kind cannot be estimated.
        InputError: A shape is not allowed.
        UsageError: A device, setting or function is unknown.
    """
    from coremlscope.assemble import assemble
    from coremlscope.describe.model import describe_model
    from coremlscope.execution.sequence_lengths import choose_lengths, length_findings
    from coremlscope.forecast.generation import estimate_generation
    from coremlscope.forecast.planner import forecast

    model, chosen, settings = read(source), _devices(devices, os), _settings(compute_units)
    given, shapes = shapes or {}, choose_lengths(model, function, shapes or {})
    summary = describe_model(model, shapes, function=function, list_ops=True)
    own, findings = _own(used=calibrated)
    found = forecast(
        model,
        summary.ops,
        chosen,
        settings,
        function=function,
        shapes=shapes,
        with_evidence=explain,
        own=own,
    )
    rates = estimate_generation(
        model, chosen, settings, function=function, shapes=given, own=own, known=found.estimates
    )
    found = dataclasses.replace(found, rates=rates)
    return assemble(summary, forecast=found, findings=[*length_findings(given, shapes), *findings])


def calibrate(
    *files: str | os.PathLike[str],
    model: Source | None = None,
    device: str | None = None,
    os: str | None = None,
) -> CalibrationReport:
    """Adds your own measurements of devices, which refine all later estimates for their chips.

    They are kept in the user's data folder. Without files nothing is added.

    Args:
        *files: Saved profiles with measurements of Core ML, files that `import_files` reads, tables (.csv)
            with the columns model, chip, unit and milliseconds, and exported measurements.
        model: The model of the files that do not name theirs.
        device: The device or chip of files that do not say.
        os: Its system: `macOS 14.5`.

    Returns:
        All measurements, the factor of each unit of a chip, and what was skipped.

    Raises:
        UsageError: A file cannot be read or is damaged, or nothing in the files can be used.
        ModelError: The model cannot be read, or a file is damaged.
        OutputError: The measurements cannot be kept.
    """
    from coremlscope.own_measurements.report import add_files, show

    known = None if model is None else read(model)
    return add_files([Path(file) for file in files], known, device, os) if files else show()


def compare(
    *sources: Source | Profile,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Any] | None = None,
    devices: str | Sequence[str] = (),
    os: str | None = None,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "all",
    iterations: int | None = None,
    compile_iterations: int | None = None,
    load_iterations: int | None = None,
    warmups: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    random_weights: bool = False,
    engine: str | None = None,
    isolate: bool = False,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compares models or profiles, and distinguishes changes from noise.

    Models are profiled, and with an embedded engine their predictions are also timed in interleaved rounds.
    On a Mac, Core ML measures them one after the other (not yet confirmed on a device). For a single source,
    plans and estimates for the devices and settings are compared with each other, and nothing is measured.

    Args:
        *sources: Models, profiles, and paths of saved profiles (`.json`) and of files that
            `import_files` reads; the first is the base.
        function: The function of each model; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.
        inputs: Values of inputs by name; absent ones are synthetic.
        devices: Chips or devices for which plans and estimates are compared: `m1`, `iphone-15-pro`.
        os: The version of their systems; the newest known one of each by default.
        compute_units: The settings under which plans and estimates are compared.
        iterations: Timed predictions of each model; None as for `profile`.
        compile_iterations: Timed compilations, likewise.
        load_iterations: Timed loads, likewise.
        warmups: Predictions before the timed ones; None for as many as it takes.
        threads: Threads that work on one operation; None for one per physical core.
        seed: Seed of synthetic inputs and weights.
        random_weights: Replaces absent weights by synthetic ones.
        engine: `coreml` or `onnxruntime`, as for `profile`.
        isolate: Runs engines in processes of their own; see `profile`.
        timeout_s: Seconds that each measurement, and all rounds, may take; implies `isolate`.
        memory_bytes: Resident memory that each process may take; implies `isolate`.
        progress: Called with the phase, the repetitions done, and how many there will be.

    Raises:
        ModelError: A model cannot be read or run.
        InputError: A value or a shape is not allowed.
        UsageError: An argument is wrong, or a saved profile cannot be read.
        EngineError: The engine failed.
        LimitError: A limit was reached.
        MissingDependencyError: Core ML is to be measured, and coremltools is not installed.
    """
    from coremlscope.comparison.models import compare_on_devices, compare_sources
    from coremlscope.measure.choice import choose_embedded
    from coremlscope.measure.repetitions import choose_repetitions
    from coremlscope.results.measurement import Settings

    chosen, units = _devices(devices, os), _settings(compute_units)
    own, findings = _own(used=bool(chosen))
    tuples = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    settings = Settings(
        function=function or "", warmups=warmups, seed=seed, shapes=tuples, random_weights=random_weights
    )
    settings = choose_repetitions(settings, iterations, compile_iterations, load_iterations)
    opened = [(name, one) for source in sources for name, one in _opened(source)]
    if len(opened) == 1:
        return compare_on_devices(opened[0][1], settings, chosen, units, own=own, findings=findings)

    measure = partial(
        profile,
        function=function,
        shapes=shapes,
        inputs=inputs,
        compute_units=units,
        devices=devices,
        os=os,
        iterations=iterations,
        compile_iterations=compile_iterations,
        load_iterations=load_iterations,
        warmups=warmups,
        threads=threads,
        seed=seed,
        random_weights=random_weights,
        engine="coreml",
        timeout_s=timeout_s,
        memory_bytes=memory_bytes,
        progress=progress,
    )
    embedded = threads is not None or random_weights
    return compare_sources(
        [measure(one) if _is_for_core_ml(one, engine, embedded) else one for _, one in opened],
        settings,
        names=[name for name, _ in opened],
        devices=chosen,
        compute_units=units,
        inputs=inputs,
        measurer=choose_embedded("onnxruntime", threads, isolate, (timeout_s, memory_bytes)),
        progress=progress,
        own=own,
        findings=findings,
    )


def _own(*, used: bool) -> tuple[Own, tuple[Finding, ...]]:
    """Returns the user's own measurements, and a finding if they cannot be read; nothing if not used."""
    from coremlscope.cost.latency.own import NOTHING_OWN
    from coremlscope.own_measurements.report import use_own

    return use_own() if used else (NOTHING_OWN, ())


def _is_for_core_ml(one: Model | Profile, engine: str | None, only_embedded: bool) -> TypeGuard[Model]:
    """True for a model that is measured with Core ML; others that are compared are measured together."""
    if not isinstance(one, Model):
        return False
    is_embedded = only_embedded or one.source is None
    return (engine or ("onnxruntime" if is_embedded else _default_engine())) == "coreml"


def matrix(
    *sources: Source,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "every",
    devices: str | Sequence[str] = (),
    os: str | None = None,
    iterations: int = 10,
    threads: int | None = None,
    seed: int = 0,
    isolate: bool = False,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    progress: Progress | None = None,
    changed: Callable[[tuple[Profile, ...]], None] = lambda _: None,
) -> tuple[Profile, ...]:
    """Measures models under settings of compute units, and plans and estimates them for devices.

    On a Mac, Core ML itself is timed under each setting (not yet confirmed on a device). Elsewhere there is
    one measurement, on this host, and the settings affect only plans and estimates.

    Args:
        *sources: The models. One that fails does not stop the others; its profile has a finding.
        compute_units: The settings.
        devices: Chips or devices to plan and estimate for: `m1`, `iphone-15-pro`.
        os: The version of their systems; the newest known one of each by default.
        iterations: Timed predictions.
        threads: Threads that work on one operation; None for one per physical core. Not on a Mac.
        seed: Seed of synthetic inputs.
        isolate: Measures each model in a process of its own; see `profile`.
        timeout_s: Seconds that each measurement may take; implies `isolate`.
        memory_bytes: Resident memory that the process of a measurement may take; implies `isolate`.
        progress: Called with the phase, the repetitions done, and how many there will be.
        changed: Called with all profiles whenever one of them changed.

    Returns:
        One profile for each model. After Ctrl-C, the profiles completed so far.

    Raises:
        UsageError: An argument is wrong.
        MissingDependencyError: Core ML is to be measured, and coremltools is not installed.
    """
    from coremlscope.batch import fill_matrix
    from coremlscope.measure.choice import choose_measurer
    from coremlscope.own_measurements.using import forecast_subject
    from coremlscope.results.measurement import Settings

    chosen, units = _devices(devices, os), _settings(compute_units)
    has_core_ml = _default_engine() == "coreml"
    name = "coreml" if has_core_ml else "onnxruntime"
    measurer = choose_measurer(name, threads, isolate, (timeout_s, memory_bytes))
    return fill_matrix(
        [(_name(source), partial(read, source)) for source in sources],
        [
            Settings(
                compute_units=setting,
                iterations=iterations,
                compile_iterations=1,
                load_iterations=3,
                seed=seed,
            )
            for setting in (units if has_core_ml else units[:1])
        ],
        measurer,
        forecaster=partial(forecast_subject, devices=chosen, settings=units) if chosen else None,
        progress=progress,
        changed=changed,
    )


def open(
    source: Source, *, function: str | None = None, precision: Precision = "fp32"
) -> Predictor | PipelinePredictor:
    """Loads a model to make several predictions.

    Args:
        source: The model.
        function: The function; None for the default one.
        precision: `fp16` rounds every result that is declared as fp16, as a device does.

    Returns:
        A context manager with `predict(values)`, `new_state()` and `close()`.

    Raises:
        ModelError: The model cannot be read or run.
        UsageError: The model has no such function.
        EngineError: The engine rejected the model.
    """
    from coremlscope.execution.pipeline import open_predictor

    return open_predictor(read(source), function, precision=precision)


def predict(
    source: Source,
    values: Mapping[str, Any],
    *,
    function: str | None = None,
    precision: Precision = "fp32",
    isolate: bool = False,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
) -> dict[str, Any]:
    """Makes one prediction.

    Args:
        source: The model. States begin with zeros.
        values: Arrays, Pillow images, numbers, strings or dictionaries, by name of the input.
        function: The function; None for the default one.
        precision: `fp16` rounds every result that is declared as fp16, as a device does.
        isolate: Reads and runs the model in a process of its own.
        timeout_s: Seconds that it may take; implies `isolate`.
        memory_bytes: Resident memory that it may take; implies `isolate`.

    Returns:
        The outputs by name, with the types of coremltools on a Mac.

    Raises:
        ModelError: The model cannot be read or run.
        InputError: A value is missing, unknown, or has the wrong shape or type.
        UsageError: The model has no such function, or is not in a file and is to be isolated.
        EngineError: The engine failed, or reached a limit.
    """
    if isolate or timeout_s or memory_bytes:
        from coremlscope.measure.child import Limits
        from coremlscope.measure.engine_process import call_isolated, file_of

        given = {"source": file_of(source) if isinstance(source, Model) else source, "values": values}
        limits = Limits(time_s=timeout_s, memory_bytes=memory_bytes)
        options = {"function": function, "precision": precision}
        found: dict[str, Any] = call_isolated(predict, {**given, **options}, limits=limits)
        return found
    with open(source, function=function, precision=precision) as predictor:
        return predictor.predict(values)


def export(
    source: Source,
    path: str | os.PathLike[str],
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[Path, ...]:
    """Writes a function as an ONNX file, or every stage of a pipeline as a folder of ONNX files.

    Args:
        source: The model.
        path: The file to write. Weights of more than 2 GB are written to a second file next to it. For a
            pipeline, a folder for a file for each stage and `pipeline.json`, which describes how they
            connect.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.

    Returns:
        The files that were written.

    Raises:
        ModelError: The model cannot be read or lowered.
        InputError: A shape is not allowed.
        UsageError: The model has no such function, or a pipeline is exported to a file.
        OutputError: A file cannot be written.
    """
    from coremlscope.execution.export import export_onnx
    from coremlscope.execution.export_pipeline import export_pipeline
    from coremlscope.execution.wiring import interface_of

    model, target = read(source), Path(path)
    if not isinstance(model.content, Pipeline):
        return export_onnx(model, target, function=function, shapes=shapes)
    interface_of(model, function)
    if target.suffix.lower() == ".onnx":
        raise UsageError(
            f"a pipeline is exported into a folder, but {target} is a file name",
            f"give a folder, such as {target.with_suffix('')}",
        )
    return export_pipeline(model, target, shapes=shapes)


def compile(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Writes a compiled model, a `.mlmodelc` folder.

    An ML Program is written in the layout of Apple's compiler. The folder of any other model contains the
    model itself and is read only by coremlscope. Not yet confirmed on a device.

    Args:
        path: A `.mlpackage` folder, a zip archive of one, or a `.mlmodel` file.
        output: The folder to write; None for the model's name in the current folder.
        overwrite: Replaces an existing compiled model. Other files and folders are never replaced.

    Returns:
        The folder.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The model is compiled already.
        OutputError: The folder exists or cannot be written.
    """
    from coremlscope.formats.compiled.writing import SUFFIX, write_compiled

    source = Path(path)
    target = Path(source.stem + SUFFIX) if output is None else Path(output)
    write_compiled(source, target, overwrite=overwrite)
    return target


def plan_by_core_ml(
    path: str | os.PathLike[str],
    *,
    compute_units: ComputeUnits = "all",
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Profile:
    """Returns Core ML's own plan for this Mac, and ours; only on a Mac. Not yet confirmed on a device.

    Args:
        path: The model.
        compute_units: The setting of compute units.
        shapes: Shapes of flexible inputs, instead of the defaults, for our plan.

    Returns:
        A profile with two plans: Core ML's and ours. Where rules do not know the chip or the system of this
        Mac, ours is left out, with a finding.

    Raises:
        ModelError: The model cannot be read, or has no operations to plan.
        MissingDependencyError: coremltools is not installed.
        EngineError: Core ML did not return a plan.
    """
    from coremlscope.assemble import assemble
    from coremlscope.describe.model import describe_model, list_operations
    from coremlscope.forecast.planner import Forecast
    from coremlscope.measure.coreml.files import require_coremltools
    from coremlscope.measure.coreml.plan import ask_core_ml, plan_findings
    from coremlscope.on_this_mac import plans_beside_ours

    require_coremltools()
    model, (setting,) = read(path), _settings(compute_units)
    default = model.description.default
    names = sorted(model.description.functions, key=lambda name: name != default)
    ops = list_operations(model, shapes, functions=names)
    answer = ask_core_ml(Path(path), setting, functions=names[1:])
    plans, findings = plans_beside_ours(model, ops, {setting: answer}, shapes=shapes)
    return assemble(
        describe_model(model, shapes),
        ops,
        forecast=Forecast(plans=plans),
        findings=[*plan_findings(answer), *findings],
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
            around coremltools, exports of Instruments, readings of power.
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
    from coremlscope.assemble import with_plans_by_rules
    from coremlscope.importers.profiles import import_files as import_paths

    known = None if model is None else read(model)
    profile = import_paths(files, known, device=device, system=os, progress=progress)
    return profile if known is None else with_plans_by_rules(profile, known)


def evidence(
    *sources: str | os.PathLike[str],
    model: Source | None = None,
    device: str | None = None,
    os: str | None = None,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "all",
    has_names: bool = False,
    has_all: bool = False,
) -> Evidence:
    """Gathers the operations on which our plans and Core ML's differ, to correct rules with.

    Args:
        *sources: Saved profiles, files that `import_files` reads, and on a Mac models, for which Core ML is
            asked (not yet confirmed on a device).
        model: The model of saved profiles and imported files: forms of operations are read from it.
        device: The device or chip that imported files are from, where they do not say.
        os: Its system: `macOS 14.5`.
        compute_units: The settings under which Core ML is asked for a plan of a model.
        has_names: Includes the author's names of operations.
        has_all: Includes operations on which both plans agree.

    Raises:
        UsageError: A source does not contain both plans, or is not of the model.
        ModelError: A model cannot be read.
    """
    from coremlscope.comparison.evidence import gather_evidence
    from coremlscope.describe.forms import list_forms

    known = None if model is None else read(model)
    found: list[tuple[Profile, Mapping[str, OpForm]]] = []
    for source in sources:
        own = _evident(source, known, device, os, _settings(compute_units))
        if not any(profile.agreements for profile, _ in own):
            raise UsageError(
                f"{source} does not contain a plan of Core ML beside one by rules",
                "for a file that was imported, name its --model, --device and --os",
            )
        found += ((profile, {} if of is None else list_forms(of)) for profile, of in own)
    return gather_evidence(
        [profile for profile, _ in found],
        [forms for _, forms in found],
        has_names=has_names,
        has_all=has_all,
    )


def _evident(
    source: str | os.PathLike[str],
    model: Model | None,
    device: str | None,
    system: str | None,
    settings: Sequence[ComputeUnits],
) -> list[tuple[Profile, Model | None]]:
    """The profiles of a source, each with its model where that is known."""
    from coremlscope.importers.profiles import is_readable, is_saved, read_any

    if not is_readable(source):
        if sys.platform != "darwin":
            raise UsageError(
                f"{source} is a model, and Core ML can be asked for its plan only on a Mac",
                "give a saved profile, or a file that `coremlscope import` reads, with --model",
            )
        asked = read(source)
        return [(plan_by_core_ml(source, compute_units=unit), asked) for unit in settings]
    if not is_saved(source):
        return [(import_files(source, model=model, device=device, os=system), model)]
    profiles = read_any(source)
    for profile in profiles if model is not None else ():
        _check_is_of(profile, model, source)
    return [(profile, model) for profile in profiles]


def _check_is_of(profile: Profile, model: Model | None, source: str | os.PathLike[str]) -> None:
    from coremlscope.describe.forms import list_forms

    known = {} if model is None else list_forms(model)
    if not set(profile.ops.id) <= set(known):
        raise UsageError(f"{source} is not a profile of that model", "name the model that was profiled")


def _devices(devices: str | Sequence[str], os_version: str | None) -> list[Device]:
    from coremlscope.devices import expand_names, find_device

    names = [devices] if isinstance(devices, str) else devices
    return [find_device(name, os_version) for name in expand_names(names)]


def _name(source: Source | Profile) -> str:
    """Returns the name of a source: its path, if it has one."""
    from coremlscope.results.profile import Profile

    if isinstance(source, Profile):
        return source.model.path
    if isinstance(source, Model):
        return str(source.source or "")
    return "" if isinstance(source, bytes) else str(source)


def _opened(source: Source | Profile) -> Iterable[tuple[str, Model | Profile]]:
    """Yields the models or profiles of a source with names: a file of profiles may contain several."""
    from coremlscope.importers.profiles import is_readable, read_any
    from coremlscope.results.profile import Profile

    if isinstance(source, Profile):
        return [(_name(source), source)]
    if not isinstance(source, (bytes, Model)) and is_readable(source):
        profiles = read_any(source)
        several = len(profiles) > 1
        return [(p.model.path if several else str(source), p) for p in profiles]
    return [(_name(source), read(source))]
