"""Forecasts with their answers: the plans and estimates of all settings, whichever are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from msgspec.structs import replace

from coremlscope.api.own_measurements.using import use_own
from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.findings import Finding
from coremlscope.devices import SETTINGS, ComputeUnits, Device
from coremlscope.devices.unit import choose_settings
from coremlscope.measure.contract import MeasuredModel
from coremlscope.model.ir import Model
from coremlscope.planning.answer.answer import make_answers
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.planning.forecast.estimates import add_evidence
from coremlscope.planning.forecast.generation import estimate_generation
from coremlscope.planning.forecast.planner import Forecast, forecast
from coremlscope.results.measurement import Settings
from coremlscope.results.model import ModelSummary
from coremlscope.runtime.execution.binding import sharing_bindings


def forecast_answered(
    model: Model,
    summary: ModelSummary,
    devices: Sequence[Device],
    asked: Sequence[ComputeUnits],
    *,
    function: str | None = None,
    every_function: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
    given: Mapping[str, Sequence[int]] | None = None,
    with_evidence: bool = False,
    is_estimated: bool = False,
    advises: Literal["asked", "all", "nothing"] = "asked",
    own: Own = NOTHING_OWN,
) -> Forecast:
    """Plans and estimates a model under every setting, and answers for each device and setting.

    Args:
        model: The model. Weights may be absent.
        summary: Its description, with the operations to which plans and estimates refer.
        devices: The chips and systems.
        asked: The settings that are asked for, the first one first.
        function: The function; None for the default one.
        every_function: Plans the other functions as well.
        shapes: Shapes of flexible inputs of the function, with those that follow from given ones.
        given: The shapes that were given; None for `shapes`.
        with_evidence: Whether estimates include the published latencies that are nearest to them.
        is_estimated: Whether a model that cannot be estimated is an error; else it is planned alone, with a
            finding.
        advises: The settings under which the model is planned again with changes, and without the reasons of
            findings.
        own: A user's own measurements, which refine estimates.

    Returns:
        The forecast under every setting, the asked ones first; `Forecast.under` returns that of some.

    Raises:
        UnsupportedModelError: The kind of model cannot be estimated, where it has to be.
        InputError: A shape is not allowed.
        UsageError: The model has no such function.
    """
    settings = (*asked, *(one for one in SETTINGS if one not in asked))
    advised = settings if advises == "all" else tuple(asked)
    make = partial(
        forecast,
        model,
        summary.ops,
        devices,
        settings,
        function=function,
        every_function=every_function,
        shapes=shapes,
        advised=advised,
        weighs=advises != "nothing",
        own=own,
    )
    with sharing_bindings():
        try:
            found = make()
        except UnsupportedModelError as error:
            if is_estimated:
                raise
            # A model of a kind whose time nobody knows is planned all the same.
            text = f"{error.message[:1].upper()}{error.message[1:]}."
            finding = Finding(id="not-estimated", severity="info", text=text, hint=error.hint)
            found = make(with_estimates=False)
            found = replace(found, findings=(finding, *found.findings))
        if with_evidence and found.structure is not None:
            estimates = tuple(map(partial(add_evidence, structure=found.structure), found.estimates))
            found = replace(found, estimates=estimates)
        if found.estimates:
            known = [one for one in found.estimates if one.compute_units in asked]
            rates = estimate_generation(
                model,
                devices,
                asked,
                function=function,
                shapes=shapes if given is None else given,
                own=own,
                known=known,
            )
            found = replace(found, rates=rates)
        answers = make_answers(
            model,
            summary,
            found,
            devices,
            settings,
            asked=asked,
            advised=() if advises == "nothing" else advised,
            function=function,
            shapes=shapes,
            own=own,
        )
        return replace(found, answers=answers)


def forecast_profiled(
    subject: MeasuredModel, settings: Settings, devices: Sequence[Device]
) -> tuple[Forecast | None, list[Finding]]:
    """Plans and estimates a model that is profiled, under every setting, the requested one first.

    Args:
        subject: The model with its shapes.
        settings: Those of its measurement.
        devices: The chips and systems; without any there is no forecast.

    Returns:
        The forecast, without estimates and with a finding for a model that cannot be estimated; None without
        devices; and a finding if the user's own measurements cannot be read.
    """
    if not devices:
        return None, []
    own, findings = use_own()
    found = forecast_answered(
        subject.model,
        replace(subject.summary, ops=subject.ops),
        devices,
        choose_settings([settings.compute_units] if settings.compute_units else "all"),  # type: ignore[list-item]
        function=settings.function or None,
        shapes=settings.shapes,
        advises="all",
        own=own,
    )
    return found, list(findings)


def forecast_subject(
    subject: MeasuredModel,
    devices: Sequence[Device],
    settings: Sequence[ComputeUnits],
    function: str | None = None,
) -> Forecast:
    """Plans and estimates a model that is measured beside others.

    Args:
        subject: The model with its shapes.
        devices: The chips and systems.
        settings: The settings of compute units.
        function: The function; None for the default one.

    Returns:
        Plans, estimates and answers, with a finding for a model that cannot be estimated, and one if the
        user's own measurements cannot be read.

    Raises:
        CoremlscopeError: The model cannot be planned; see `forecast`.
    """
    own, findings = use_own()
    found = forecast_answered(
        subject.model,
        replace(subject.summary, ops=subject.ops),
        devices,
        settings,
        function=function,
        shapes=subject.shapes,
        own=own,
    ).under(settings)
    return replace(found, findings=(*found.findings, *findings))
