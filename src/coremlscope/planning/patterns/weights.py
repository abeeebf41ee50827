"""Weights that an operation unpacks before their use."""

from __future__ import annotations

from collections.abc import Iterator

from coremlscope.model.ir import Value
from coremlscope.ops import has_traits
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.rule import GraphContext

#: The parameter that holds the weight, by trait.
_WEIGHTS = {
    Trait.CONVOLUTION: "weight",
    Trait.LINEAR: "weight",
    Trait.MATRIX_PRODUCT: "y",
}
#: Operations with weights.
WEIGHTED = Trait.CONVOLUTION | Trait.LINEAR | Trait.MATRIX_PRODUCT


def packed_weights(context: GraphContext, *kinds: str) -> Iterator[tuple[str, OpView, OpView]]:
    """Operations whose weight is unpacked by an operation of one of these types: id, operation, unpacking."""
    if not any(view.op.type in kinds for view in context.producers.values()):
        return
    for id_, view in context.ops:
        parameter = next((name for trait, name in _WEIGHTS.items() if has_traits(view.op.type, trait)), "")
        for argument in view.op.inputs.get(parameter, ()):
            maker = context.producers.get(argument.name) if isinstance(argument, Value) else None
            if maker is not None and maker.op.type in kinds:
                yield id_, view, maker
