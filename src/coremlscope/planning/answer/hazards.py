"""The hazards of an answer: those of the model, and those of the units where a setting puts operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coremlscope.describe.loading import find_load_problem
from coremlscope.devices import OSRelease
from coremlscope.model.ir import Model
from coremlscope.planning.forecast.assumptions import conversion_hint
from coremlscope.planning.forecast.hazards import find_hazards
from coremlscope.planning.hazards.find import find_placed
from coremlscope.results.hazard import HAZARD_KINDS, Hazard
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan import PlanView


def find_on_every_unit(model: Model, summary: ModelSummary) -> tuple[Hazard, ...]:
    """Returns the hazards of a model that do not depend on the unit, and whether its weights are absent.

    Args:
        model: The model.
        summary: Its description.
    """
    found = [one for one in find_hazards(model) if not one.units]
    return (*found, *_absent(summary))


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


def _absent(summary: ModelSummary) -> Iterator[Hazard]:
    if summary.missing_weights:
        yield Hazard(
            id="missing-weights",
            kind="refused",
            phase="load",
            text="the weights are absent: figures follow from the sizes that the program declares",
            fix=f"put {summary.missing_weights[0]} where the program refers to it",
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
