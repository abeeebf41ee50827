"""Plans and estimates for devices."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec.structs

from coremlscope.api.models import Source, read
from coremlscope.devices import find_devices
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.devices.unit import choose_settings
from coremlscope.model.subject import Subject

if TYPE_CHECKING:
    from coremlscope.devices import ComputeUnits
    from coremlscope.measure.contract import Progress
    from coremlscope.results.profile import Profile


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
        A profile with a plan for each device, of every function, and estimates of the default one where its
        kind can be estimated.

    Raises:
        ModelError: The model cannot be read, or has no operations to plan.
        InputError: A shape is not allowed.
        UsageError: A device or setting is unknown.
    """
    from coremlscope.api.answers import forecast_answered
    from coremlscope.api.assemble import assemble
    from coremlscope.api.own_measurements.using import use_own
    from coremlscope.describe.model import list_operations
    from coremlscope.planning.forecast.assumptions import shape_findings
    from coremlscope.planning.forecast.largest import find_at_largest
    from coremlscope.planning.hazards.summary import describe_model
    from coremlscope.runtime.execution.binding import sharing_bindings
    from coremlscope.runtime.execution.sequence_lengths import choose_lengths, length_findings

    model, chosen, settings = read(source), find_devices(devices, os), choose_settings(compute_units)
    default = model.description.default
    names = sorted(model.description.functions, key=lambda name: name != default)
    given, shapes = shapes or {}, choose_lengths(model, default, shapes or {})
    with sharing_bindings():
        ops = list_operations(model, shapes, functions=names)
        summary = msgspec.structs.replace(describe_model(model, shapes), ops=ops)
        own, remarks = use_own()
        found = forecast_answered(
            model, summary, chosen, settings, every_function=True, shapes=shapes, given=given, own=own
        )
        largest = tuple(find_at_largest(model, chosen, settings, None, shapes, with_estimates=False))
    shaped = shape_findings(model, None, shapes) if found.estimates else ()
    findings = (*length_findings(model, given, shapes), *shaped, *largest, *remarks)
    return assemble(summary, forecast=found.under(settings), findings=findings)


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
        calibrated: Uses your own measurements of the devices, see `add_measurements`.

    Returns:
        A profile with an estimate for every device and setting, in that order, and the plans on which they
        are based.

    Raises:
        ModelError: The model cannot be read, or models of its kind cannot be estimated.
        InputError: A shape is not allowed.
        UsageError: A device, setting or function is unknown.
    """
    from coremlscope.api.answers import forecast_answered
    from coremlscope.api.assemble import assemble
    from coremlscope.api.own_measurements.using import choose_own
    from coremlscope.planning.forecast.assumptions import shape_findings
    from coremlscope.planning.forecast.largest import find_at_largest
    from coremlscope.planning.hazards.summary import describe_model
    from coremlscope.runtime.execution.binding import sharing_bindings
    from coremlscope.runtime.execution.sequence_lengths import choose_lengths, length_findings

    model, chosen, settings = read(source), find_devices(devices, os), choose_settings(compute_units)
    given, shapes = shapes or {}, choose_lengths(model, function, shapes or {})
    with sharing_bindings():
        summary = describe_model(model, shapes, function=function, list_ops=True)
        own, findings = choose_own(is_used=calibrated)
        found = forecast_answered(
            model,
            summary,
            chosen,
            settings,
            function=function,
            shapes=shapes,
            given=given,
            with_evidence=explain,
            is_estimated=True,
            own=own,
        )
        largest = tuple(find_at_largest(model, chosen, settings, function, shapes, with_estimates=True))
    assumed = (*length_findings(model, given, shapes), *shape_findings(model, function, shapes), *largest)
    return assemble(summary, forecast=found.under(settings), findings=[*assumed, *findings])


def answer(
    source: Source,
    devices: str | Sequence[str] = (),
    *,
    os: str | None = None,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "all",
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    calibrated: bool = True,
    advises: bool = True,
    measures: bool = True,
    progress: Progress | None = None,
) -> Profile:
    """Answers how fast a model is on devices, where the time goes, and what to change.

    Nothing is run, except on a Mac without `devices`: there Core ML also measures the model, within seconds
    (not yet confirmed on a device). `describe.this_mac.say_measured` says it, or why nothing was measured.

    Args:
        source: The model. Weights may be absent.
        devices: Chips or devices; by default phones and Macs of this year, of two and of five years ago.
        os: The version of their systems; the newest known one of each by default.
        compute_units: What an app allows; see `plan`.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.
        calibrated: Uses your own measurements of the devices.
        advises: Whether to look for changes of the model, and to say what its findings cost; answers without
            have no changes, and say nothing of any.
        measures: Whether Core ML measures the model on a Mac.
        progress: Called while Core ML measures, with the phase, the repetitions done, and how many there will
            be.

    Returns:
        A profile with an answer for each device and setting, and the plans and estimates that it follows
        from, under every setting. A model of a kind that cannot be estimated has answers without latencies.

    Raises:
        ModelError: The model cannot be read.
        InputError: A shape is not allowed.
        UsageError: A device, setting or function is unknown.
    """
    from coremlscope.api.answers import forecast_answered
    from coremlscope.api.assemble import assemble
    from coremlscope.api.own_measurements.using import choose_own
    from coremlscope.planning.hazards.summary import describe_model
    from coremlscope.runtime.execution.binding import sharing_bindings
    from coremlscope.runtime.execution.sequence_lengths import choose_lengths

    model, settings = read(source), choose_settings(compute_units)
    is_measured = measures and sys.platform == "darwin" and not devices and os is None
    chosen = find_devices(devices or DEFAULT_DEVICES, os)
    given, shapes = shapes or {}, choose_lengths(model, function, shapes or {})
    with sharing_bindings():
        summary = describe_model(model, shapes, function=function, list_ops=True)
        own, remarks = choose_own(is_used=calibrated)
        found = forecast_answered(
            model,
            summary,
            chosen,
            settings,
            function=function,
            shapes=shapes,
            given=given,
            advises="asked" if advises else "nothing",
            own=own,
        )
    profile = assemble(summary, forecast=found, findings=remarks)
    if not is_measured:
        return profile
    from coremlscope.api.this_mac import measure_this_mac

    measurements, lost = measure_this_mac(Subject(source, function, shapes), progress)
    return msgspec.structs.replace(profile, measurements=measurements, findings=(*profile.findings, *lost))
