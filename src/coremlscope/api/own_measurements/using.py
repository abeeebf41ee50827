"""Plans and estimates that use the user's own measurements."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec.structs

from coremlscope.api.answers import forecast_answered
from coremlscope.api.own_measurements.store import default_store
from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.findings import Finding
from coremlscope.devices import ComputeUnits, Device
from coremlscope.devices.unit import choose_settings
from coremlscope.measure.contract import MeasuredModel
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own, calibrate
from coremlscope.planning.forecast.planner import Forecast
from coremlscope.results.measurement import Settings


def use_own() -> tuple[Own, tuple[Finding, ...]]:
    """Returns the constants with the user's own measurements, and a finding if they cannot be read."""
    try:
        measurements = default_store().read()
    except CoremlscopeError as error:
        finding = Finding(
            id="own-measurements-not-used",
            severity="warning",
            text=f"Estimates do not use your own measurements: {error.message}.",
            hint=error.hint,
        )
        return NOTHING_OWN, (finding,)
    return (calibrate(measurements), ()) if measurements else (NOTHING_OWN, ())


def choose_own(*, is_used: bool) -> tuple[Own, tuple[Finding, ...]]:
    """Returns what `use_own` does, or the constants without the user's own measurements."""
    return use_own() if is_used else (NOTHING_OWN, ())


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
        msgspec.structs.replace(subject.summary, ops=subject.ops),
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
        msgspec.structs.replace(subject.summary, ops=subject.ops),
        devices,
        settings,
        function=function,
        shapes=subject.shapes,
        own=own,
    ).under(settings)
    return msgspec.structs.replace(found, findings=(*found.findings, *findings))
