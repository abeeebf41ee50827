"""Core ML's own plans for this Mac, with ours beside them. Not yet confirmed on a device."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec.structs

from coremlscope.base.errors import EngineError, UnsupportedModelError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits
from coremlscope.devices import ComputeUnits
from coremlscope.devices.unit import SETTINGS
from coremlscope.measure.contract import MeasuredModel
from coremlscope.measure.coreml import plan as core_ml
from coremlscope.measure.coreml.kept import KeptFolders
from coremlscope.measure.coreml.units import effective_units
from coremlscope.measure.partial import interrupted
from coremlscope.model.ir import Classical, Model
from coremlscope.planning.forecast.planner import Forecast
from coremlscope.planning.forecast.planner import forecast as make_forecast
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan


def with_plans_of_this_mac(
    forecast: Forecast | None,
    subject: MeasuredModel,
    settings: Settings,
    measurements: Sequence[Measurement],
    limits: ChildLimits,
    kept: KeptFolders,
) -> tuple[Forecast, list[Finding]]:
    """Puts Core ML's own plans for this Mac, and ours, before those of a forecast.

    Args:
        forecast: Plans and estimates of other devices; None for none.
        subject: The model.
        settings: Function and shapes.
        measurements: What was measured under settings of compute units.
        limits: When to give up.
        kept: Has what Core ML compiled for the measurements.

    Returns:
        The forecast, and findings on plans that are missing.
    """
    known, units = forecast or Forecast(), {measured.compute_units for measured in measurements}
    plans, findings = _plans_of_this_mac(subject, settings, units, limits, kept)
    return msgspec.structs.replace(known, plans=plans + known.plans), findings


def _plans_of_this_mac(
    subject: MeasuredModel,
    settings: Settings,
    units: Collection[str],
    limits: ChildLimits,
    kept: KeptFolders,
) -> tuple[tuple[Plan, ...], list[Finding]]:
    """Core ML's own plan for this Mac under each setting, and ours; findings where there is none."""
    model, path = subject.model, subject.model.source
    if path is None or isinstance(model.content, Classical):  # Core ML plans no classical models
        return (), []
    others = [name for name in (settings.function,) if name not in ("", model.description.default)]
    answers: dict[ComputeUnits, core_ml.PlansOfModel] = {}
    findings: list[Finding] = []
    for unit in (known for known in SETTINGS if known in units):
        try:
            answers[unit] = core_ml.ask_core_ml(path, unit, limits, functions=others, home=kept.of(unit))
            findings += core_ml.plan_findings(answers[unit])
        except EngineError as error:
            text = f"Core ML gave no plan under {unit}: {error.message}."
            findings.append(Finding(id="no-core-ml-plan", severity="info", text=text, hint=error.hint))
        except KeyboardInterrupt:
            findings.append(interrupted(f"Core ML's plan under {unit}"))
            break
    if not answers:
        return (), findings
    try:
        plans, remarks = plans_beside_ours(
            model, subject.ops, answers, function=settings.function or None, shapes=settings.shapes
        )
    except UnsupportedModelError:  # nothing in it can be planned, as in a pipeline of classical models
        return (), findings
    return plans, findings + remarks


def plans_beside_ours(
    model: Model,
    ops: OpTable,
    answers: Mapping[ComputeUnits, core_ml.PlansOfModel],
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[tuple[Plan, ...], list[Finding]]:
    """Core ML's plans for this Mac, and ours; a finding instead where rules do not know this Mac."""
    ours: tuple[Plan, ...] = ()
    findings = []
    try:
        mac = core_ml.this_mac()
    except UsageError as error:
        text = f"Our own plan for this Mac is left out: {error.message}."
        findings.append(Finding(id="mac-not-known", severity="info", text=text, hint="use --device NAME"))
        template = core_ml.empty_plan(ops)
    else:
        ours = make_forecast(
            model,
            ops,
            [mac],
            list(dict.fromkeys(map(effective_units, answers))),
            function=function,
            every_function=function is None,
            shapes=shapes,
            with_estimates=False,
        ).plans
        template = ours[0]
    theirs = [
        core_ml.plan_from_core_ml(template, ops, setting, answer) for setting, answer in answers.items()
    ]
    return (*theirs, *ours), findings
