"""A device's plan and estimate for a profile: the columns that stand beside its op table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coremlscope.devices import ComputeUnit, ComputeUnits
from coremlscope.figures import Figure, Origin

__all__ = ["DevicePlan", "InsertedOp", "PlanReason", "SettingEstimate", "SettingPlan"]


@dataclass(frozen=True, slots=True)
class InsertedOp:
    """An operation that Core ML adds to what the file holds.

    Attributes:
        id: As the plan names it: `main/input`.
        type: Apple's name of the operation.
        function: The function that it is in, as in the op table.
        outputs: Types of its results.
        before: It stands before this row of the op table.
    """

    id: str
    type: str
    function: str
    outputs: tuple[str, ...]
    before: int


@dataclass(frozen=True, slots=True)
class PlanReason:
    """Why operations do not run on a unit, or what would make them faster there; see `placement.Reason`."""

    unit: ComputeUnit
    rule: str
    text: str
    fix: str
    core_ml: str
    confidence: str
    source: str


@dataclass(frozen=True, slots=True)
class SettingEstimate:
    """What a prediction is estimated to take under one setting. Nothing of it was measured.

    The columns of kernels are in the order of execution; `OpTable.kernel` says which operations each holds.
    A kernel's time belongs to all its operations together and is never split.

    Attributes:
        latency: Seconds, with an interval that holds 80 % of the cases.
        basis: `calibrated` where published latencies of the chip went into the estimate, else `extrapolated`.
        bound: What takes most of the time.
        parts: Seconds by what they go into.
        placement: The share of each unit in the time of the kernels.
        switches: How often the unit changes between kernels.
        kernel_s: Seconds of each kernel.
        kernel_unit: Where it runs, an index into the plan's `units`.
        kernel_bound: What it waits for.
    """

    latency: Figure
    basis: str
    bound: str
    parts: Mapping[str, float]
    placement: Mapping[ComputeUnit, float]
    switches: int
    kernel_s: tuple[float, ...]
    kernel_unit: tuple[int, ...]
    kernel_bound: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettingPlan:
    """The plan under one setting of compute units.

    Attributes:
        compute_units: The setting.
        total_ms: Planned cost of the cheapest path, launches and switches included.
        switches: How often the path changes its unit.
        backend: Where each operation goes, an index into the plan's `backends`; -1 where no unit is known to
            run it.
        detour_ms: For each unit, per operation: how much more the cheapest plan costs that runs it there;
            None where it runs there anyway, or cannot.
        estimate: None where the kind of model is not estimated.
    """

    compute_units: ComputeUnits
    total_ms: float
    switches: int
    backend: tuple[int, ...]
    detour_ms: Mapping[ComputeUnit, tuple[float | None, ...]]
    estimate: SettingEstimate | None = None


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """Where a device would run every operation, at what planned cost, and why.

    Columns have one entry for each row of the profile's op table, then one for each of `inserted`.

    Attributes:
        device: The device, or its chip.
        chip: The chip's id.
        os: The system.
        cost_model: Which published plans the costs were read from, for people.
        notes: What else to know.
        units: The compute units that columns refer to.
        backends: The implementations that Core ML chooses from, with the unit of each.
        inserted: Operations that Core ML adds.
        supported: For each unit, per operation: 1 where it can run there, 0 where it cannot, -1 where no rule
            speaks of it; None for operations that plans do not list, as what is known before run time.
        cost_ms: For each backend, per operation: its planned cost; None where it cannot run there.
        reasons: Every distinct reason, once.
        why: Per operation: indices of the reasons why it cannot run on units.
        advice: Per operation: indices of what would make it faster where it runs.
        settings: All settings, the one that was asked for first.
        origin: Costs are `planned`; those within `SettingEstimate` are estimated.
    """

    device: str
    chip: str
    os: str
    cost_model: str
    notes: tuple[str, ...]
    units: tuple[ComputeUnit, ...]
    backends: Mapping[str, ComputeUnit]
    inserted: tuple[InsertedOp, ...]
    supported: Mapping[ComputeUnit, tuple[int | None, ...]]
    cost_ms: Mapping[str, tuple[float | None, ...]]
    reasons: tuple[PlanReason, ...]
    why: tuple[tuple[int, ...], ...]
    advice: tuple[tuple[int, ...], ...]
    settings: tuple[SettingPlan, ...]
    origin: Origin = "planned"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DevicePlan:
        """The inverse of `dataclasses.asdict`, whether or not the values went through JSON text."""
        values = dict(data)
        for key in ("notes", "units"):
            values[key] = tuple(values[key])
        for key in ("why", "advice"):
            values[key] = tuple(map(tuple, values[key]))
        for key in ("supported", "cost_ms"):
            values[key] = _columns(values[key])
        values["inserted"] = tuple(
            InsertedOp(**{**op, "outputs": tuple(op["outputs"])}) for op in values["inserted"]
        )
        values["reasons"] = tuple(PlanReason(**reason) for reason in values["reasons"])
        values["settings"] = tuple(map(_setting, values["settings"]))
        return cls(**values)


def _columns(data: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(column) for name, column in data.items()}


def _setting(data: Mapping[str, Any]) -> SettingPlan:
    values = {**data, "backend": tuple(data["backend"]), "detour_ms": _columns(data["detour_ms"])}
    estimate = values["estimate"]
    if estimate is not None:
        columns = {key: tuple(estimate[key]) for key in ("kernel_s", "kernel_unit", "kernel_bound")}
        values["estimate"] = SettingEstimate(
            **{**estimate, **columns, "latency": Figure(**estimate["latency"])}
        )
    return SettingPlan(**values)
