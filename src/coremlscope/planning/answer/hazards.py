"""The hazards of an answer: those of the model, and those of the units where a setting puts operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coremlscope.describe.loading import find_load_problem
from coremlscope.devices import OSRelease
from coremlscope.model.ir import Model
from coremlscope.planning.forecast.assumptions import conversion_hint, weight_notes
from coremlscope.planning.forecast.hazards import find_hazards
from coremlscope.planning.hazards.find import find_placed
from coremlscope.results.hazard import HAZARD_KINDS, Hazard
from coremlscope.results.plan import PlanView


def find_on_every_unit(model: Model) -> tuple[Hazard, ...]:
    """Returns the hazards of a model that do not depend on the unit; absent and damaged weights are one."""
    return (*(one for one in find_hazards(model) if not one.units), *_without_weights(model))


def find_on_system(model: Model, system: OSRelease) -> tuple[Hazard, ...]:
    """Returns why a system does not load a model; empty where it does."""
    problem = find_load_problem(model, system)
    if problem is None:
        return ()
    return (
        Hazard(
            id="does-not-load",
            kind="refused",
            phase="load",
            text=f"this model does not load on {system}: {problem.text}",
            fix=conversion_hint(model, system),
            source="the file's specification version",
            confidence="documented",
        ),
    )


def _without_weights(model: Model) -> Iterator[Hazard]:
    for note in weight_notes(model):
        yield Hazard(
            id="missing-weights",
            kind="refused",
            phase="load",
            text=note,
            fix="copy or download the whole model again",
            source="the file",
            confidence="measured",
        )


def find_under(setting: PlanView | None, on_every_unit: Sequence[Hazard]) -> tuple[Hazard, ...]:
    """Returns the hazards under a setting, the gravest first.

    Args:
        setting: The plan of a device under it; None where there is none.
        on_every_unit: Those that do not depend on the unit.
    """
    found = list(on_every_unit)
    if setting is not None:
        found += find_placed(setting.plan, setting.compute_units)
    unique = {(one.id, one.text): one for one in found}
    return tuple(sorted(unique.values(), key=lambda one: (not is_met(one), HAZARD_KINDS.index(one.kind))))


def is_met(hazard: Hazard) -> bool:
    """Returns whether a prediction meets a hazard: plans avoid units that refuse a function."""
    return hazard.is_sure and (not hazard.units or hazard.kind not in ("refused", "silent fallback"))
