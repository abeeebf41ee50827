"""A model's description, with what its checks find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from coremlscope.describe import model as description
from coremlscope.model.ir import Model
from coremlscope.planning.hazards.find import find_on_model
from coremlscope.results.model import ModelSummary


def describe_model(
    model: Model,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    function: str | None = None,
    list_ops: bool = False,
    reads_weights: bool = False,
) -> ModelSummary:
    """Describes a model as `describe.model.describe_model` does, with the hazards that its checks find."""
    summary = description.describe_model(
        model, shapes, function=function, list_ops=list_ops, reads_weights=reads_weights
    )
    return msgspec.structs.replace(summary, findings=(*summary.findings, *find_on_model(model)))
