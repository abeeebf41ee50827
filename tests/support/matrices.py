"""Profiles of several models with round numbers, made by hand."""

from __future__ import annotations

import msgspec.structs

from coremlscope.api.sources import FAILED
from coremlscope.base.figures import Figure
from coremlscope.base.findings import Finding
from coremlscope.devices import ComputeUnits
from coremlscope.measure.partial import interrupted
from coremlscope.results.estimate import Estimate
from coremlscope.results.measurement import Machine, Measurement, Phase, Runtime, Settings
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan import FunctionCost, Plan, PlannedOps, SettingPlan
from coremlscope.results.profile import Profile
from tests.support.profiles import MACHINE, MADE

__all__ = ["SETTINGS", "host_matrix", "mac_matrix"]

SETTINGS: tuple[ComputeUnits, ...] = ("all", "cpu_and_ne", "cpu_and_gpu", "cpu_only")


def _measurement(label: str, runtime: Runtime, machine: Machine, setting: ComputeUnits | None) -> Measurement:
    return Measurement(
        label=label,
        runtime=runtime,
        machine=machine,
        settings=Settings(compute_units=setting or "all", iterations=2),
        compute_units=setting or "",
        threads=None if setting else 2,
        load=Phase.of((0.02,)),
        predict=Phase.of((0.001, 0.003)),
    )


def _plan(scale: float) -> Plan:
    costs = {"main": FunctionCost(0.5 * scale, 0)}
    return Plan(
        device="iPhone 15 Pro",
        chip="a17-pro",
        os="iOS 18",
        cost_model="made by hand",
        backends={},
        ops=PlannedOps(),
        settings=tuple(SettingPlan(compute_units=s, functions=costs) for s in SETTINGS),
    )


def _estimates(scale: float) -> tuple[Estimate, ...]:
    return tuple(
        Estimate(
            device="iPhone 15 Pro",
            chip="a17-pro",
            os="iOS 18",
            compute_units=setting,
            latency=Figure(0.001 * scale, 0.0007 * scale, 0.0014 * scale, "estimated"),
            basis="calibrated" if scale < 2 else "extrapolated",
            bound="compute",
            parts={},
            placement={},
            switches=0,
        )
        for setting in SETTINGS
    )


def host_matrix() -> tuple[Profile, ...]:
    """Off a Mac: three models, one of which cannot be planned, and a file that is not a model."""
    measured = _measurement(
        "scripted 1.0 on Example 9000", Runtime("scripted", "scripted", "1.0"), MACHINE, None
    )
    unplanned = Finding(id=FAILED, severity="error", text="plan and estimate: no operations", exit_code=5)
    unread = Finding(
        id=FAILED,
        severity="error",
        text="read: c.txt is not a Core ML model",
        hint="give one",
        exit_code=3,
    )
    first = Profile(
        model=ModelSummary(path="models/a-model-with-a-rather-long-name.mlpackage", kind="mlProgram"),
        made=MADE,
        measurements=(measured,),
        plans=(_plan(1),),
        estimates=_estimates(1),
    )
    return (
        first,
        Profile(model=ModelSummary(path="b.mlpackage"), measurements=(measured,), findings=(unplanned,)),
        Profile(model=ModelSummary(path="c.txt"), findings=(unread,)),
        msgspec.structs.replace(
            first, model=ModelSummary(path="d.mlpackage"), plans=(_plan(2),), estimates=_estimates(2)
        ),
    )


def mac_matrix() -> tuple[Profile, ...]:
    """On a Mac whose power mode was changed between the models, and that was interrupted."""

    def measurements(mode: str, settings: tuple[ComputeUnits, ...]) -> tuple[Measurement, ...]:
        machine = Machine(processor="Apple M4", power_mode=mode)
        runtime = Runtime("coreml", "Core ML")
        return tuple(_measurement("Core ML on Apple M4", runtime, machine, s) for s in settings)

    stopped = interrupted("Measuring")
    return (
        Profile(model=ModelSummary(path="a.mlpackage"), measurements=measurements("normal", SETTINGS)),
        Profile(
            model=ModelSummary(path="b.mlpackage"),
            measurements=measurements("low power", SETTINGS[:2]),
            findings=(stopped,),
        ),
        Profile(model=ModelSummary(path="c.mlpackage")),
    )
