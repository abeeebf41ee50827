"""The known hazards of a model: wherever it runs, or where a plan puts its operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coremlscope.base.findings import Finding
from coremlscope.devices.chip_files import newest_system
from coremlscope.devices.release import OSRelease, macos
from coremlscope.devices.unit import SETTING_WORDS, ComputeUnits
from coremlscope.model.ir import Model
from coremlscope.planning.forecast.functions import ModelFunction, planned_functions
from coremlscope.planning.hazards import HAZARDS, KnownHazard
from coremlscope.planning.hazards.find import describe_hazard, find_in_function, find_in_model, find_placed
from coremlscope.results.hazard import HAZARD_KINDS, Hazard
from coremlscope.results.plan import Plan, PlanView
from coremlscope.runtime.execution.wiring import bind_functions

#: The rows that do not depend on the unit: no plan has them at its operations.
_UNPLACED = tuple(row for row in HAZARDS if not row.units)
#: Places up to which each is named.
_NAMED = 3


def find_hazards(
    model: Model, view: PlanView | None = None, *, systems: Sequence[OSRelease] = ()
) -> tuple[Hazard, ...]:
    """Returns the known hazards of a model, the gravest first.

    Args:
        model: The model. Weights may be absent.
        view: A plan under one setting: then those that do not depend on the unit, and those of the units
            where it puts operations. By default all that are known of it on some unit, chip and system.
        systems: Only what holds on one of these; empty for all.

    Raises:
        ModelError: A function cannot be read.
    """
    found = [*find_in_model(model)]
    for one in planned_functions(bind_functions(model, every=True)):
        found += _of_function(one, systems, HAZARDS if view is None else _UNPLACED)
    if view is not None:
        found += find_placed(view.plan, view.compute_units)
    return tuple(sorted(_merged(found), key=lambda hazard: HAZARD_KINDS.index(hazard.kind)))


def _merged(found: Sequence[Hazard]) -> list[Hazard]:
    """Returns the hazards, with what several functions show once."""
    return list({(hazard.id, hazard.text): hazard for hazard in reversed(found)}.values())[::-1]


def _of_function(
    one: ModelFunction, systems: Sequence[OSRelease], among: Sequence[KnownHazard]
) -> Iterator[Hazard]:
    if one.model.content.is_core_ai:
        return
    graph = one.graph_on(macos(newest_system()))
    views = [node.view for node in graph.walk() if not node.inserted]
    every = [*(node.view for node in graph.walk()), *graph.walk_packed()]
    producers = {value.name: view for view in every for value in view.op.outputs}
    yield from find_in_function(views, producers, one.facts, systems=systems, among=among)


def describe_planned_hazards(
    functions: Sequence[ModelFunction], plans: Sequence[Plan], settings: Sequence[ComputeUnits]
) -> Iterator[Finding]:
    """Yields a finding for each hazard of the functions that does not depend on the unit, and for each that a
    plan meets under some settings, with the devices and settings where it does."""
    refused = [hazard for one in functions for hazard in _of_function(one, (), _UNPLACED)]
    yield from map(describe_hazard, _merged(refused))
    found: dict[tuple[str, str], list[tuple[Hazard, str]]] = {}
    for plan in plans:
        for setting in (one.compute_units for one in plan.settings if one.compute_units in settings):
            where = f"{plan.device}, {plan.os}, {SETTING_WORDS[setting]}"
            for hazard in find_placed(plan, setting):
                found.setdefault((hazard.id.partition("-")[2], hazard.text), []).append((hazard, where))
    for several in found.values():
        hazard = several[0][0]
        places = "; ".join(where if one.is_certain else f"perhaps {where}" for one, where in several[:_NAMED])
        more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
        yield describe_hazard(hazard, f"Planned there on {places}{more}.")
