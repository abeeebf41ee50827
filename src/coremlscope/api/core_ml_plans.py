"""Core ML's own plans for this Mac, with ours beside them. Not yet confirmed on a device."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec.structs

from coremlscope.api.assemble import assemble
from coremlscope.api.models import read
from coremlscope.base.errors import EngineError, UnsupportedModelError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits
from coremlscope.describe.model import list_operations
from coremlscope.devices import ComputeUnits
from coremlscope.devices.unit import SETTINGS, choose_settings
from coremlscope.measure.contract import MeasuredModel, Progress
from coremlscope.measure.coreml import plan as core_ml
from coremlscope.measure.coreml.files import require_coremltools
from coremlscope.measure.coreml.kept import KeptFolders
from coremlscope.measure.coreml.limits import core_ml_limits
from coremlscope.measure.coreml.units import distinct_units, effective_units
from coremlscope.measure.effort import Effort
from coremlscope.measure.partial import interrupted
from coremlscope.model.ir import Classical, Model
from coremlscope.planning.forecast.planner import Forecast
from coremlscope.planning.forecast.planner import forecast as make_forecast
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan
from coremlscope.results.profile import Profile

#: The id of a finding on a plan that is missing.
_MISSING = "no-core-ml-plan"


def _ask_for_plans(
    path: Path,
    units: Collection[ComputeUnits],
    functions: Sequence[str],
    limits: ChildLimits,
    kept: KeptFolders,
    progress: Progress | None = None,
) -> tuple[dict[ComputeUnits, core_ml.PlansOfModel], list[Finding], EngineError | None]:
    """Asks Core ML for its plan under each setting; a failure costs one setting.

    Args:
        path: The model.
        units: The settings.
        functions: The functions to ask for besides the default one.
        limits: When to give up on a setting.
        kept: Has what Core ML compiled for measurements.
        progress: Called with the phase when it begins.

    Returns:
        The plans, findings on them and on those that are missing, and the first failure.
    """
    answers: dict[ComputeUnits, core_ml.PlansOfModel] = {}
    findings: list[Finding] = []
    first: EngineError | None = None
    for unit in units:
        try:
            answers[unit] = core_ml.ask_core_ml(
                path, unit, limits, functions=functions, home=kept.of(unit), progress=progress
            )
            findings += core_ml.plan_findings(answers[unit])
        except EngineError as error:
            first = first or error
            text = f"Core ML gave no plan under {unit}: {error.message}."
            findings.append(
                Finding(
                    id=_MISSING, severity="warning", text=text, hint=error.hint, exit_code=error.exit_code
                )
            )
        except KeyboardInterrupt:
            findings.append(interrupted(f"Core ML's plan under {unit}"))
            break
    return answers, findings, first


def with_plans_of_this_mac(
    forecast: Forecast | None,
    subject: MeasuredModel,
    settings: Settings,
    measurements: Sequence[Measurement],
    limits: ChildLimits,
    kept: KeptFolders,
    progress: Progress | None = None,
) -> tuple[Forecast, list[Finding]]:
    """Puts Core ML's own plans for this Mac, and ours, before those of a forecast.

    Args:
        forecast: Plans and estimates of other devices; None for none.
        subject: The model.
        settings: Function and shapes.
        measurements: What was measured under settings of compute units.
        limits: When to give up.
        kept: Has what Core ML compiled for the measurements.
        progress: Called with the phase when it begins.

    Returns:
        The forecast, and findings on plans that are missing.
    """
    known, model = forecast or Forecast(), subject.model
    if model.source is None or isinstance(model.content, Classical):  # Core ML plans no classical models
        return known, []
    measured = {measured.compute_units for measured in measurements}
    others = [name for name in (settings.function,) if name not in ("", model.description.default)]
    units = [unit for unit in SETTINGS if unit in measured]
    answers, findings, _ = _ask_for_plans(model.source, units, others, limits, kept, progress)
    # What was asked for is the measurement.
    findings = [msgspec.structs.replace(f, exit_code=0) if f.id == _MISSING else f for f in findings]
    if not answers:
        return known, findings
    try:
        plans, remarks = _plans_beside_ours(
            model, subject.ops, answers, function=settings.function or None, shapes=settings.shapes
        )
    except UnsupportedModelError:  # nothing in it can be planned, as in a pipeline of classical models
        return known, findings
    return msgspec.structs.replace(known, plans=plans + known.plans), findings + remarks


def _plans_beside_ours(
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


def plan_by_core_ml(
    path: str | os.PathLike[str],
    *,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "all",
    shapes: Mapping[str, Sequence[int]] | None = None,
    effort: Effort | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Returns Core ML's own plans for this Mac, and ours; only on a Mac. Not yet confirmed on a device.

    Args:
        path: The model.
        compute_units: The settings of compute units.
        shapes: Shapes of flexible inputs, instead of the defaults, for our plan.
        effort: The limits of each plan.
        progress: Called with the setting and the phase when it begins.

    Returns:
        A profile with a plan by Core ML for each setting, and ours. Where rules do not know the chip or the
        system of this Mac, ours is left out, with a finding; so is Core ML's under a setting that failed.

    Raises:
        ModelError: The model cannot be read, or has no operations to plan.
        MissingDependencyError: coremltools is not installed.
        EngineError: Core ML returned no plan under any setting.
    """
    require_coremltools("`--device NAME` needs no coremltools")
    model, units = read(path), distinct_units(choose_settings(compute_units))
    default = model.description.default
    names = sorted(model.description.functions, key=lambda name: name != default)
    ops = list_operations(model, shapes, functions=names)
    limits = core_ml_limits(effort or Effort())
    answers, lost, error = _ask_for_plans(Path(path), units, names[1:], limits, KeptFolders(), progress)
    if not answers:
        raise error or KeyboardInterrupt
    plans, findings = _plans_beside_ours(model, ops, answers, shapes=shapes)
    return assemble(
        describe_model(model, shapes), ops, forecast=Forecast(plans=plans), findings=[*lost, *findings]
    )
