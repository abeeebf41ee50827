"""Reads, binds, judges, prices, searches: a model's plan for a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coremlscope.cost.planned.prices import TRANSITION_COSTS, PlannedCosts, price
from coremlscope.cost.planned.rates import era
from coremlscope.devices import GPU, SETTINGS, ComputeUnits, Device
from coremlscope.errors import UnsupportedModelError
from coremlscope.execution.binding import bind_model, choose_function
from coremlscope.execution.wiring import Stage, is_external, shaped_stages, stage_key
from coremlscope.ir import FunctionDescription, Model, Pipeline, Program
from coremlscope.ops.bind import BoundFunction
from coremlscope.placement.coreml_view import CoreMLGraph, Node, program_facts, view_function
from coremlscope.placement.eligibility import judge
from coremlscope.placement.half_precision import in_half_precision
from coremlscope.placement.plan import FunctionPlan, Plan, place

__all__ = ["bind_as_run", "notes_on", "plan_model", "view_as_run"]


#: The GPU's costs are published for an M1, which has eight cores at most; base chips since have ten.
_PUBLISHED_GPU_CORES = 10
_NETWORK = (
    "Core ML tells where the layers of a neural network run, but no costs of theirs: these are what its model"
    " says of the same operations of an fp16 program"
)
_LARGE_GPU = (
    "with all units, published plans of chips with larger GPUs (M4 Pro, M5 Max) use the GPU more than this:"
    " what Core ML says that it costs there is not published; cpu_and_ne is not affected"
)


def plan_model(
    model: Model,
    device: Device,
    compute_units: ComputeUnits = "all",
    *,
    every_setting: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Plan:
    """Plans every function of a model, and of every stage of a pipeline.

    Args:
        model: The model. Weights may be absent.
        device: The chip and the system.
        compute_units: What the app allows.
        every_setting: Plans the other settings as well.
        shapes: Shapes of flexible inputs of the default function, instead of the defaults.

    Raises:
        UnsupportedModelError: The model is a classical one.
        InputError: A shape is not allowed.
    """
    others = [setting for setting in SETTINGS if setting != compute_units] if every_setting else []
    settings: tuple[ComputeUnits, ...] = (compute_units, *others)
    if not isinstance(model.content, (Program, Pipeline)):
        raise UnsupportedModelError(
            f"a model of the kind {model.kind} has no operations to plan",
            "Core ML runs such models on the CPU; ML Programs and neural networks are planned",
        )
    functions: dict[str, FunctionPlan] = {}
    notes: list[str] = []
    has_network = False
    for stage, asked in shaped_stages(model, shapes):
        if not isinstance(stage.model.content, Program):
            notes.append(_unplanned(stage))
            continue
        has_network |= stage.model.content.is_network
        for function in stage.model.description.functions:
            is_main = function == stage.model.description.default
            functions[stage_key(stage.name, function)] = _plan_function(
                stage.model, function, device, settings, asked if is_main else None
            )
    notes.extend(notes_on(device, settings, has_network))
    return Plan(device, settings, functions, era(device.os).name, tuple(notes))


def notes_on(device: Device, settings: Sequence[ComputeUnits], has_network: bool) -> tuple[str, ...]:
    """What else to know about plans for a device, of models with or without a neural network of layers."""
    cores = device.chip.value(GPU, "cores") or 0
    is_large = "all" in settings and cores > _PUBLISHED_GPU_CORES
    return (*[_NETWORK] * has_network, *[_LARGE_GPU] * is_large)


def _unplanned(stage: Stage) -> str:
    """What is said of a stage that has no operations."""
    if is_external(stage.model):
        return f"{stage.name} ({stage.model.kind}) is not in the file: where it would run is not known"
    return f"{stage.name} is a model of the kind {stage.model.kind}, which Core ML runs on the CPU"


def bind_as_run(
    model: Model, function: str | None, shapes: Mapping[str, Sequence[int]] | None
) -> BoundFunction:
    """Binds a function in the precision in which Core ML computes it; raises as `bind_model` does."""
    bound = bind_model(model, function, shapes)
    return in_half_precision(bound) if _is_network(model) else bound


def view_as_run(
    model: Model, bound: BoundFunction, device: Device, description: FunctionDescription
) -> CoreMLGraph:
    """A bound function as Core ML plans it. The types at the edges of a neural network cost no casts."""
    return view_function(bound, device.os, None if _is_network(model) else description)


def _is_network(model: Model) -> bool:
    return isinstance(model.content, Program) and model.content.is_network


def _plan_function(
    model: Model,
    name: str,
    device: Device,
    settings: Sequence[ComputeUnits],
    shapes: Mapping[str, Sequence[int]] | None,
) -> FunctionPlan:
    description = choose_function(model, name).description
    bound = bind_as_run(model, name, shapes)
    graph = view_as_run(model, bound, device, description)
    facts = program_facts(model, bound, description)

    def pricing(node: Node) -> PlannedCosts:
        return price(node.view, device.os)

    return place(graph, judge(graph, device, facts), pricing, TRANSITION_COSTS, settings)
