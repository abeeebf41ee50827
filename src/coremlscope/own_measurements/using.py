"""Plans and estimates that use the user's own measurements, for models that are measured as well."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from coremlscope.devices import ComputeUnits, Device
from coremlscope.forecast.planner import Forecast, forecast
from coremlscope.measure.contract import Subject
from coremlscope.own_measurements.report import use_own

__all__ = ["forecast_subject"]


def forecast_subject(
    subject: Subject, devices: Sequence[Device], settings: Sequence[ComputeUnits]
) -> Forecast:
    """Plans and estimates a model that is measured beside others.

    Args:
        subject: The model with its shapes.
        devices: The chips and systems.
        settings: The settings of compute units.

    Returns:
        Plans without advice, and estimates; with a finding if the user's own measurements cannot be read.

    Raises:
        CoremlscopeError: The model cannot be planned or estimated; see `forecast`.
    """
    own, findings = use_own()
    found = forecast(
        subject.model, subject.ops, devices, settings, shapes=subject.shapes, with_advice=False, own=own
    )
    return dataclasses.replace(found, findings=(*found.findings, *findings))
