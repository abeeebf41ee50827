"""Assembles a model's description, measurements, plans and estimates into one profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec.structs

from coremlscope.api.answers import forecast_answered
from coremlscope.base.errors import UnsupportedModelError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.version import __version__
from coremlscope.devices import ComputeUnits, Device, find_device
from coremlscope.measure.contract import now
from coremlscope.model.ir import Model
from coremlscope.planning.advice import RULES
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.planning.forecast.planner import Forecast, forecast
from coremlscope.results.agreement import find_agreements
from coremlscope.results.generation import TokenTiming
from coremlscope.results.measurement import Measurement
from coremlscope.results.model import ModelSummary
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan
from coremlscope.results.profile import Profile, Provenance
from coremlscope.runtime.engines.host import this_machine


def assemble(
    model: ModelSummary,
    ops: OpTable | None = None,
    *,
    measurements: Sequence[Measurement] = (),
    forecast: Forecast | None = None,
    timings: Sequence[TokenTiming] = (),
    findings: Sequence[Finding] = (),
    made: Provenance | None = None,
) -> Profile:
    """Makes a profile of parts that refer to the rows of one op table.

    Args:
        model: The model's description.
        ops: Its operations; None for those of the description.
        measurements: Measured times.
        forecast: Plans and estimates.
        timings: Measured speed of a language model.
        findings: Remarks that do not belong to a measurement.
        made: When, where and by which version; None for now, this machine and this version.
    """
    table = model.ops if ops is None else ops
    known = forecast or Forecast()
    return Profile(
        model=msgspec.structs.replace(model, ops=OpTable(), findings=()),
        ops=table,
        made=made or made_here(),
        measurements=tuple(measurements),
        plans=known.plans,
        kernels=known.kernels,
        estimates=known.estimates,
        rates=known.rates,
        answers=known.answers,
        token_timings=tuple(timings),
        agreements=find_agreements(known.plans),
        findings=(*findings, *model.findings, *known.findings),
    )


def with_plans(profile: Profile, plans: Sequence[Plan]) -> Profile:
    """Returns a profile with other plans, and how far they agree."""
    return msgspec.structs.replace(profile, plans=tuple(plans), agreements=find_agreements(plans))


def with_devices(
    profile: Profile,
    model: Model,
    devices: Sequence[Device],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    own: Own = NOTHING_OWN,
) -> Profile:
    """Returns a profile with plans and estimates also for other devices, under every setting.

    Those that it has are made again, since estimates share one list of kernels. Measurements, and plans by
    Core ML, stay as they are.

    Args:
        profile: The profile.
        model: The model that it is of.
        devices: The devices.
        shapes: Shapes of flexible inputs, as in the profile.
        own: A user's own measurements, which refine estimates.

    Raises:
        UnsupportedModelError: The model has no operations to plan, or its kind cannot be estimated.
        UsageError: A device of the profile is not known.
    """
    theirs = tuple(plan for plan in profile.plans if plan.planner != "rules")
    known = [find_device(plan.device, plan.os) for plan in profile.plans if plan.planner == "rules"]
    wanted = {(device.name, str(device.os)): device for device in (*known, *devices)}
    asked = tuple(dict.fromkeys(one.compute_units for one in profile.answers if one.is_asked)) or ("all",)
    summary = msgspec.structs.replace(profile.model, ops=profile.ops)
    found = forecast_answered(
        model,
        summary,
        list(wanted.values()),
        asked,
        shapes=shapes,
        is_estimated=True,
        advises="all",
        own=own,
    )
    return msgspec.structs.replace(
        with_plans(profile, (*theirs, *found.plans)),
        kernels=found.kernels,
        estimates=found.estimates,
        rates=found.rates,
        answers=found.answers,
        findings=tuple(dict.fromkeys((*_not_on_the_model(profile.findings), *found.findings))),
    )


def _not_on_the_model(findings: Sequence[Finding]) -> list[Finding]:
    """Returns the findings that are not made by planning the model again."""
    ids = {rule.id for rule in RULES}
    return [finding for finding in findings if finding.id not in ids]


def with_plans_by_rules(profile: Profile, model: Model) -> Profile:
    """Returns a profile with our plan for each device and system that Core ML planned for.

    Those that rules do not know are left out.

    Args:
        profile: The profile, with plans of Core ML.
        model: The model that it is of.
    """
    asked: dict[tuple[str, str], dict[ComputeUnits, None]] = {}
    for plan in profile.plans:
        if plan.planner == "Core ML" and plan.chip:
            units = (setting.compute_units for setting in plan.settings)
            asked.setdefault((plan.chip, plan.os), {}).update(dict.fromkeys(units))
    ours: list[Plan] = []
    for (chip, system), settings in asked.items():
        try:
            device = find_device(chip, system)
            found = forecast(
                model, profile.ops, [device], list(settings), every_function=True, with_estimates=False
            )
        except (UsageError, UnsupportedModelError):  # the system or the kind of model is not known
            continue
        ours += (msgspec.structs.replace(plan, os=system) for plan in found.plans)
    return with_plans(profile, [*profile.plans, *ours]) if ours else profile


def made_here() -> Provenance:
    """Returns the provenance of a profile made now, on this machine and by this version."""
    return Provenance(now(), __version__, this_machine())
