"""The public interface: short compositions of the parts."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from coremlscope.devices.unit import SETTINGS
from coremlscope.errors import UsageError
from coremlscope.formats import container
from coremlscope.ir import Model, Pipeline

if TYPE_CHECKING:
    from coremlscope.compare.profiles import Comparison
    from coremlscope.describe.model import ModelSummary
    from coremlscope.devices import ComputeUnits
    from coremlscope.forecast.estimating import Estimated
    from coremlscope.matrix import Matrix, Timing
    from coremlscope.measure.engine import Progress
    from coremlscope.ops.program import Precision
    from coremlscope.placement.plan import Plan
    from coremlscope.results.profile import Profile, Request

__all__ = [
    "Source",
    "compare",
    "estimate",
    "export",
    "inspect",
    "plan",
    "plan_by_apple",
    "predict",
    "profile",
    "read",
]

#: Where a model comes from: a path, the bytes of a specification, or a model that was read before.
Source = str | os.PathLike[str] | bytes | Model


class MeasureOptions(TypedDict, total=False):
    """What `Request` tells of how to measure, as keywords."""

    function: str
    iterations: int
    compile_iterations: int
    load_iterations: int
    warmups: int | None
    seed: int
    shapes: Mapping[str, tuple[int, ...]]
    random_weights: bool
    precision: Precision


class RequestOptions(MeasureOptions, total=False):
    """The attributes of `Request`, as keywords."""

    compute_units: str


def read(source: Source) -> Model:
    """Reads a model; one that was read before is returned as it is.

    Raises:
        ModelError: There is no model, or it is damaged.
    """
    return source if isinstance(source, Model) else container.read(source)


def inspect(
    source: Source,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    function: str | None = None,
    list_ops: bool = False,
) -> ModelSummary:
    """What a model is, without running it. Weights may be absent.

    Args:
        source: The model.
        shapes: Shapes of flexible inputs, instead of the defaults.
        function: The function to put first, instead of the default one.
        list_ops: Lists every operation of that function.

    Raises:
        CoremlscopeError: See the error tree.
    """
    from coremlscope.describe.model import summarise

    return summarise(read(source), shapes, function=function, list_ops=list_ops)


def profile(
    source: Source,
    *,
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    devices: Sequence[str] = (),
    **request: Unpack[RequestOptions],
) -> Profile:
    """Compiles, loads and runs a model again and again, and says where the time goes.

    Args:
        source: The model.
        inputs: Values of inputs by name; those that are absent are made up.
        threads: Threads that work on one operation; None for one per physical core.
        progress: Called with the phase, how many repetitions are done, and how many there will be.
        devices: Chips or devices on which to estimate the latency, besides: `m1`, `iphone-15-pro`. Where
            nothing is known of the model's kind, a finding says so.
        **request: What to measure and how often: the attributes of `Request`, such as `iterations=100`.

    Raises:
        CoremlscopeError: See the error tree.
    """
    from coremlscope.errors import UnsupportedModelError
    from coremlscope.findings import Finding
    from coremlscope.measure import engine as assemble
    from coremlscope.results.profile import Request

    wanted, model = Request(**request), read(source)
    unknown: tuple[Finding, ...] = ()
    try:
        found = _on_devices(model, devices, wanted) if devices else []
    except UnsupportedModelError as error:
        found, unknown = (
            [],
            (
                Finding(
                    id="not-estimated",
                    severity="info",
                    text=f"No estimate: {error.message}.",
                    hint=error.hint,
                ),
            ),
        )
    measured = assemble.measure(model, wanted, inputs=inputs, threads=threads, progress=progress)
    if not found:
        return dataclasses.replace(measured, findings=(*measured.findings, *unknown))
    from coremlscope.forecast.tabulate import with_plans

    asked = tuple(one.for_profile() for one in found if one.compute_units == found[0].compute_units)
    return with_plans(dataclasses.replace(measured, estimates=asked), found)


def _on_devices(model: Model, devices: Sequence[str], request: Request) -> list[Estimated]:
    """Plans and estimates under every setting, the one that was asked for first."""
    from coremlscope.devices import SETTINGS, find_device
    from coremlscope.forecast.estimating import estimate_model

    chosen = [find_device(device) for device in devices]
    settings = sorted(SETTINGS, key=lambda setting: setting != request.compute_units)
    function = request.function or None
    return estimate_model(model, chosen, settings, function=function, shapes=request.shapes, with_advice=True)


def compare(
    *sources: Source | Profile,
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    devices: Sequence[str] = (),
    os: str | None = None,
    settings: Sequence[ComputeUnits] = ("all",),
    **request: Unpack[MeasureOptions],
) -> Comparison:
    """What differs between models, or profiles, and whether it is more than noise.

    Models are profiled, and their predictions timed in turns besides. Of a single source, plans and estimates
    for the devices and settings are compared with each other, and nothing is measured.

    Args:
        *sources: Models, profiles, and paths of saved profiles (`.json`); the first is the base.
        inputs: Values of inputs by name; those that are absent are made up.
        threads: Threads that work on one operation; None for one per physical core.
        progress: Called with the phase, how many repetitions are done, and how many there will be.
        devices: Chips or devices for which plans and estimates are compared: `m1`, `iphone-15-pro`.
        os: The version of the system of all of them; the newest known one of each by default.
        settings: Under which settings of compute units.
        **request: What to measure and how often, as for `profile`.

    Raises:
        CoremlscopeError: See the error tree.
    """
    from coremlscope.compare.models import compare_on_devices, compare_sources
    from coremlscope.devices import find_device
    from coremlscope.results.profile import Request

    wanted, chosen = Request(**request), [find_device(device, os) for device in devices]
    opened = [_opened(source) for source in sources]
    if len(opened) == 1:
        return compare_on_devices(opened[0], wanted, chosen, settings)
    names = [_name(source) for source in sources]
    return compare_sources(
        opened, wanted, names=names, devices=chosen, settings=settings, inputs=inputs, threads=threads,
        progress=progress,
    )  # fmt: skip


def matrix(
    *sources: Source,
    compute_units: Sequence[ComputeUnits] = tuple(SETTINGS),
    iterations: int = 10,
    devices: Sequence[str] = (),
    os: str | None = None,
    threads: int | None = None,
    seed: int = 0,
    on_device: str | None = None,
    team: str = "",
    progress: Progress | None = None,
    changed: Callable[[Matrix], None] = lambda _: None,
) -> Matrix:
    """Models × settings of compute units: measured, and for devices planned and estimated.

    On a Mac, Core ML itself is timed under each setting (that path is not yet confirmed on a device).
    Elsewhere there is one time, that of this host, and the settings matter to plans and estimates only.

    Args:
        *sources: The models. One that fails does not stop the others; the result tells of it.
        compute_units: The settings.
        iterations: How often a prediction is timed.
        devices: Chips or devices to plan and estimate for: `m1`, `iphone-15-pro`.
        os: The version of the system of all of them; the newest known one of each by default.
        threads: Threads that work on one operation; None for one per physical core. Not on a Mac.
        seed: Seeds made-up inputs.
        on_device: On a Mac, the name or identifier of an iPhone or iPad that is connected to it, or `any`:
            each setting is timed there and not on the Mac (not yet confirmed on a device).
        team: The development team that signs what runs on that device: `A1B2C3D4E5`.
        progress: Called with the phase, how many repetitions are done, and how many there will be.
        changed: Called with all that is known whenever something new is.

    Returns:
        The matrix. Ctrl-C ends the work, and what was done by then is returned.

    Raises:
        CoremlscopeError: An argument is wrong; see the error tree.
    """
    from coremlscope.compare.profiles import label_subjects
    from coremlscope.devices import find_device
    from coremlscope.matrix import Matrix, fill_matrix, forecast_model, time_on_host
    from coremlscope.measure.coreml.device import device_timer
    from coremlscope.measure.coreml.timing import time_in_core_ml

    chosen = [find_device(device, os) for device in devices]
    settings = tuple(compute_units)
    labels = label_subjects([_name(source) for source in sources])
    is_mac = sys.platform == "darwin"
    with ExitStack() as stack:
        time_model: Callable[..., Timing] = partial(time_on_host, threads=threads)
        if on_device is not None or team:
            time_model = stack.enter_context(device_timer(on_device or "", team))
        elif is_mac:
            time_model = time_in_core_ml
        return fill_matrix(
            [(label, partial(read, source)) for label, source in zip(labels, sources, strict=True)],
            Matrix(iterations, settings, tuple(device.name for device in chosen), ()),
            partial(time_model, iterations=iterations, seed=seed, progress=progress),
            settings_matter=is_mac,
            power_matters=on_device is None,
            forecast=partial(forecast_model, devices=chosen, settings=settings) if chosen else None,
            changed=changed,
        )


def _name(source: Source | Profile) -> str:
    """What a source is called: its path, where it has one."""
    from coremlscope.results.profile import Profile

    if isinstance(source, Profile):
        return source.model.path
    if isinstance(source, Model):
        return str(source.source or "")
    return "" if isinstance(source, bytes) else str(source)


def _opened(source: Source | Profile) -> Model | Profile:
    """What a source holds: a profile, or a model."""
    from coremlscope.results.files import is_saved_profile, read_profile
    from coremlscope.results.profile import Profile

    if isinstance(source, Profile):
        return source
    if not isinstance(source, (bytes, Model)) and is_saved_profile(Path(source)):
        return read_profile(Path(source))
    return read(source)


def predict(
    source: Source,
    values: Mapping[str, Any],
    *,
    function: str | None = None,
    precision: Precision = "fp32",
) -> dict[str, Any]:
    """One prediction.

    Args:
        source: The model. States begin with zeros.
        values: By name of the input: arrays, Pillow images, numbers, strings, dictionaries.
        function: The function; None for the default one.
        precision: `fp16` rounds every result that is declared as fp16, as a device does.

    Returns:
        By name of the output, as coremltools gives them on a Mac.

    Raises:
        CoremlscopeError: See the error tree.
    """
    from coremlscope.execution.pipeline import open_predictor

    with open_predictor(read(source), function, precision=precision) as predictor:
        return predictor.predict(values)


def estimate(
    source: Source,
    devices: Sequence[str],
    *,
    os: str | None = None,
    compute_units: Sequence[ComputeUnits] = ("all",),
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> list[Estimated]:
    """How long a prediction takes on devices, estimated with an interval.

    Args:
        source: The model. Weights may be absent.
        devices: Chips or devices by name: `m1`, `iphone-15-pro`.
        os: The version of the system of all of them; the newest known one of each by default.
        compute_units: What the app allows: `all`, `cpu_and_ne`, `cpu_and_gpu`, `cpu_only`.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.

    Returns:
        One estimate for every device and setting, in that order.

    Raises:
        CoremlscopeError: See the error tree.
    """
    from coremlscope.devices import find_device
    from coremlscope.forecast.estimating import estimate_model

    chosen = [find_device(device, os) for device in devices]
    name = "" if isinstance(source, (bytes, Model)) else str(source)
    model = read(source)
    return estimate_model(model, chosen, compute_units, name=name, function=function, shapes=shapes)


def export(
    source: Source,
    path: str | os.PathLike[str],
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[Path, ...]:
    """Writes a function as an ONNX file, which any engine can run; of a pipeline every stage.

    Args:
        source: The model.
        path: The file to write. Weights of more than 2 GB go into a second file beside it. For a pipeline a
            folder: it gets a file for each stage, and `pipeline.json`, which tells what passes between them.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.

    Returns:
        The files that were written.

    Raises:
        CoremlscopeError: See the error tree.
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
            f"a pipeline is exported stage by stage into a folder, and {target} is the name of a file",
            f"give a folder, such as {target.with_suffix('')}",
        )
    return export_pipeline(model, target, shapes=shapes)


def plan(
    source: Source,
    device: str,
    *,
    os: str | None = None,
    compute_units: ComputeUnits = "all",
    every_setting: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Plan:
    """Which compute unit of a device Core ML would run each operation on, at what planned cost, and why.

    Args:
        source: The model. Weights may be absent.
        device: A chip or a device by name: `m1`, `iphone-15-pro`.
        os: The version of its system; the newest known one by default.
        compute_units: What the app allows: `all`, `cpu_and_ne`, `cpu_and_gpu`, `cpu_only`.
        every_setting: Plans the other settings as well.
        shapes: Shapes of flexible inputs, instead of the defaults.

    Raises:
        CoremlscopeError: See the error tree.
    """
    from coremlscope.devices import find_device
    from coremlscope.forecast.planning import plan_model

    chosen = find_device(device, os)
    return plan_model(read(source), chosen, compute_units, every_setting=every_setting, shapes=shapes)


def plan_by_apple(
    path: str | os.PathLike[str],
    *,
    compute_units: ComputeUnits = "all",
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[Plan, Plan]:
    """On a Mac: Core ML's own plan for this Mac, and ours. Not yet confirmed on a device.

    Args:
        path: The model.
        compute_units: What the app allows.
        shapes: Shapes of flexible inputs, instead of the defaults, for our plan.

    Returns:
        Apple's plan and ours.

    Raises:
        CoremlscopeError: See the error tree.
    """
    from coremlscope.forecast.planning import plan_model
    from coremlscope.measure.coreml.plan import ask_core_ml, plan_from_apple, this_mac

    ours = plan_model(read(path), this_mac(), compute_units, shapes=shapes)
    return plan_from_apple(ours, ask_core_ml(Path(path), compute_units)), ours
