"""Reads, binds, fuses, plans, prices: how long predictions of a model take on devices, estimated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coremlscope.cost.latency.kernels import Kernel, fuse
from coremlscope.cost.latency.model import LatencyEstimate, estimate
from coremlscope.cost.latency.table import KernelTable
from coremlscope.cost.planned.prices import TRANSITION_COSTS, PlannedCosts, price
from coremlscope.cost.planned.rates import era
from coremlscope.devices import ComputeUnit, ComputeUnits, Device
from coremlscope.errors import UnsupportedModelError
from coremlscope.execution.binding import choose_function
from coremlscope.execution.wiring import shaped_stages, wire
from coremlscope.forecast.planning import bind_as_run, view_as_run
from coremlscope.ir import (
    ArrayFeature,
    DType,
    Feature,
    FunctionDescription,
    ImageFeature,
    Model,
    Pipeline,
    Program,
)
from coremlscope.ops.bind import BoundFunction
from coremlscope.placement.coreml_view import CoreMLGraph, Node, program_facts
from coremlscope.placement.eligibility import judge
from coremlscope.placement.plan import FunctionPlan, place
from coremlscope.placement.rules import GRAPH_RULES, RULES
from coremlscope.results.profile import DeviceLatency

__all__ = ["Estimated", "estimate_model"]

_PIXEL_BYTES = 4


@dataclass(frozen=True, slots=True)
class Estimated:
    """The estimate of a model on a device under one setting.

    Attributes:
        model: What the model was called.
        device: The chip and the system.
        compute_units: The setting.
        estimate: The estimate.
        left_out: Stages of a pipeline that the estimate lacks: they have no operations that are known.
        plans: The plan of each stage, for all settings that were asked for.
    """

    model: str
    device: Device
    compute_units: ComputeUnits
    estimate: LatencyEstimate
    left_out: tuple[str, ...] = ()
    plans: tuple[FunctionPlan, ...] = field(default=(), repr=False, compare=False)

    def for_profile(self) -> DeviceLatency:
        """What a profile shows of it."""
        e = self.estimate
        return DeviceLatency(
            self.device.name, self.device.chip.id, str(self.device.os), self.compute_units, e.latency,
            e.basis, e.bound, dict(e.placement), self.left_out,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Stage:
    """A function that is estimated: the default one of a model or of a stage of a pipeline."""

    model: Model
    bound: BoundFunction
    description: FunctionDescription
    kernels: tuple[Kernel, ...]
    #: Planned costs by operation and era: devices of one era share them.
    prices: dict[tuple[str, str], PlannedCosts] = field(default_factory=dict)
    #: The function as Core ML plans it, by system.
    graphs: dict[str, CoreMLGraph] = field(default_factory=dict)


def estimate_model(
    model: Model,
    devices: Sequence[Device],
    settings: Sequence[ComputeUnits] = ("all",),
    *,
    name: str = "",
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    with_advice: bool = False,
) -> list[Estimated]:
    """Estimates the latency of a prediction for every device and setting.

    Args:
        model: The model. Weights may be absent.
        devices: The chips and systems.
        settings: What an app allows.
        name: What the model is called in the result.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.
        with_advice: Whether the plans say as well what would make operations faster where they run.

    Raises:
        UnsupportedModelError: The model is a classical one.
        InputError: A shape is not allowed.
        UsageError: The model has no such function.
    """
    stages = list(_stages(model, function, shapes))
    if not stages:
        raise _nothing_known(model)
    kernels = [kernel for stage in stages for kernel in stage.kernels]
    table = KernelTable.of(kernels)
    edges = (*stages[0].description.inputs, *stages[-1].description.outputs)
    converted = sum(map(_converted_bytes, edges))
    left_out = _left_out(model)
    plans: dict[object, list[FunctionPlan]] = {}
    found = []
    for device in devices:
        key = _planning_key(device)
        if key not in plans:
            plans[key] = [_plan(stage, device, settings, with_advice=with_advice) for stage in stages]
        for setting in settings:
            units = _units(plans[key], setting)
            result = estimate(kernels, units, device.chip, converted_bytes=converted, table=table)
            found.append(Estimated(name, device, setting, result, left_out, tuple(plans[key])))
    return found


def _stages(
    model: Model, function: str | None, shapes: Mapping[str, Sequence[int]] | None
) -> Iterator[_Stage]:
    if not isinstance(model.content, (Pipeline, Program)):
        return
    is_single = isinstance(model.content, Program)
    for stage, asked in shaped_stages(model, shapes):
        if isinstance(stage.model.content, Program):
            name = function if is_single else None
            bound = bind_as_run(stage.model, name, asked)
            description = choose_function(stage.model, name).description
            yield _Stage(stage.model, bound, description, fuse(bound.graph))


def _nothing_known(model: Model) -> UnsupportedModelError:
    hint = "only ML Programs and neural networks are estimated"
    if isinstance(model.content, Pipeline):
        names = ", ".join(_left_out(model))
        return UnsupportedModelError(f"nothing is known of how long the stages take: {names}", hint)
    return UnsupportedModelError(f"nothing is known of how long a model of the kind {model.kind} takes", hint)


def _left_out(model: Model) -> tuple[str, ...]:
    return tuple(
        f"{stage.name} ({stage.model.kind})"
        for stage in wire(model).stages
        if not isinstance(stage.model.content, Program)
    )


def _planning_key(device: Device) -> object:
    """Devices with equal keys have equal plans: the same rules hold, and rules ask for nothing else."""
    scopes = [*(rule.scope for rule in RULES), *(rule.scope for rule in GRAPH_RULES)]
    held = tuple(scope.holds(device.chip, device.os) for scope in scopes)
    return held, device.chip.neural_engine_generation, device.os


def _plan(
    stage: _Stage, device: Device, settings: Sequence[ComputeUnits], *, with_advice: bool
) -> FunctionPlan:
    system = str(device.os)
    if system not in stage.graphs:
        stage.graphs[system] = view_as_run(stage.model, stage.bound, device, stage.description)
    graph = stage.graphs[system]
    facts = program_facts(stage.model, stage.bound, stage.description)

    def pricing(node: Node) -> PlannedCosts:
        key = node.id, era(device.os).name
        if key not in stage.prices:
            stage.prices[key] = price(node.view, device.os)
        return stage.prices[key]

    return place(
        graph, judge(graph, device, facts, with_advice=with_advice), pricing, TRANSITION_COSTS, settings
    )


def _units(plans: Sequence[FunctionPlan], setting: ComputeUnits) -> dict[str, ComputeUnit]:
    return {
        op.id: unit for plan in plans for op in plan.ops if (unit := op.choices[setting].unit) is not None
    }


def _converted_bytes(feature: Feature) -> int:
    """Bytes of an input or output that is not in half precision."""
    match feature.type:
        case ArrayFeature(dtype=dtype, shape=shape) if dtype != DType.FP16:
            return math.prod(max(extent, 1) for extent in shape) * dtype.bits // 8
        case ImageFeature(width=width, height=height):
            return _PIXEL_BYTES * width * height
        case _:
            return 0
