"""Models and stages without operations: where Core ML runs them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.model.ir import Model, kind_name, kind_with_article
from coremlscope.runtime.execution.wiring import Stage, StageFunction

#: Stages of a pipeline up to which each is named.
_NAMED = 4


def unplanned_stages(functions: Sequence[StageFunction]) -> tuple[str, ...]:
    """Returns the stages without operations, the model itself included, with their types in words."""
    return _listed([one.stage for one in functions if not one.is_planned])


def unestimated_stages(functions: Sequence[StageFunction]) -> tuple[str, ...]:
    """Returns the stages of whose time nothing is known: those that are not in the file, or not read."""
    return _listed([one.stage for one in functions if one.bound is None])


def unplanned_notes(functions: Sequence[StageFunction]) -> tuple[str, ...]:
    """Returns what is known of the placement of models and stages without operations."""
    stages = [one.stage for one in functions if not one.is_planned]
    outside = [stage for stage in stages if stage.model.content.absent]
    inside = [stage for stage in stages if stage not in outside]
    notes = []
    if outside:
        notes.append(
            "in the system or the app, not in the file, so that the placement is unknown:"
            f" {', '.join(_listed(outside))}"
        )
    if len(inside) == 1 and not inside[0].name:
        kind = kind_with_article(inside[0].model.kind)
        notes.append(f"Core ML runs {kind} on the CPU, as a whole; it has no operations to plan")
    elif inside:
        each = "each as a whole" if len(inside) > 1 else "as a whole"
        notes.append(f"on the CPU, {each}, without operations to plan: {', '.join(_listed(inside))}")
    return tuple(notes)


def nothing_known(model: Model, functions: Sequence[StageFunction]) -> UnsupportedModelError:
    """Returns the error for a model of whose time nothing is known."""
    message = f"the latency of {kind_with_article(model.kind)} cannot be estimated"
    if functions[0].stage.name:
        listed = ", ".join(unestimated_stages(functions))
        message = f"the latency of these stages cannot be estimated: {listed}"
    return UnsupportedModelError(
        message,
        "what is part of the system or of an app is timed on a Mac or a device",
    )


def _listed(stages: Sequence[Stage]) -> tuple[str, ...]:
    """Lists stages by name and type; many by type, with their number."""
    kinds = [kind_name(stage.model.kind) for stage in stages]
    if len(stages) <= _NAMED:
        return tuple(f"{s.name} ({kind})" if s.name else kind for s, kind in zip(stages, kinds, strict=True))
    return tuple(f"{kind} ×{number}" if number > 1 else kind for kind, number in Counter(kinds).items())
