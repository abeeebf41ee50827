"""Reads, binds, judges, prices, searches: a model's plan for a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coremlscope.cost.plan import TOLLS, price
from coremlscope.cost.rates import era
from coremlscope.devices import SETTINGS, ComputeUnits, Device
from coremlscope.errors import UnsupportedModelError
from coremlscope.execution.binding import bind_model, choose_function
from coremlscope.ir import Model, Program
from coremlscope.placement.backend import Backend
from coremlscope.placement.coreml_view import Node, program_facts, view_function
from coremlscope.placement.eligibility import judge
from coremlscope.placement.plan import FunctionPlan, Plan, PlannedCost, place

__all__ = ["plan_model"]


def plan_model(
    model: Model,
    device: Device,
    compute_units: ComputeUnits = "all",
    *,
    every_setting: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Plan:
    """Plans every function of a model.

    Args:
        model: The model. Weights may be absent.
        device: The chip and the system.
        compute_units: What the app allows.
        every_setting: Plans the other settings as well.
        shapes: Shapes of flexible inputs of the default function, instead of the defaults.

    Raises:
        UnsupportedModelError: The model is no ML Program.
        InputError: A shape is not allowed.
    """
    if not isinstance(model.content, Program):
        raise UnsupportedModelError(
            f"a model of the kind {model.kind} cannot be planned yet",
            "ML Programs can; `coremlscope inspect` works on every kind",
        )
    others = [setting for setting in SETTINGS if setting != compute_units] if every_setting else []
    settings: tuple[ComputeUnits, ...] = (compute_units, *others)
    functions = {}
    for name in model.description.functions:
        given = shapes if name == model.description.default else None
        functions[name] = _plan_function(model, name, device, settings, given)
    return Plan(device, settings, functions, era(device.os).name)


def _plan_function(
    model: Model,
    name: str,
    device: Device,
    settings: Sequence[ComputeUnits],
    shapes: Mapping[str, Sequence[int]] | None,
) -> FunctionPlan:
    description = choose_function(model, name).description
    bound = bind_model(model, name, shapes)
    graph = view_function(bound, device.os, description)
    facts = program_facts(model, bound, description)

    def pricing(node: Node) -> dict[Backend, PlannedCost]:
        prices = price(node.view, device.os)
        return {backend: PlannedCost(known.ms, known.basis) for backend, known in prices.items()}

    return place(graph, judge(graph, device, facts), pricing, TOLLS, settings)
