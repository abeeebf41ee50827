"""The item similarity recommender to ONNX."""

from __future__ import annotations

import numpy as np

from coremlscope.ir import DictType, ListType
from coremlscope.ir.classical import ItemSimilarityRecommender
from coremlscope.lower.classical.interface import F64, Interface, Label
from coremlscope.ops.emit import I64, Tensor

__all__ = ["lower_item_similarity_recommender"]


def lower_item_similarity_recommender(content: ItemSimilarityRecommender, interface: Interface) -> None:
    """Lowers an `ItemSimilarityRecommender`; equally similar items keep their order."""
    op, labels = interface.op, content.keys.numpy().tolist()
    observed, scores = _observed(content, labels, interface)
    marked = _marked(observed, len(labels), interface)
    similarity = _similarities(content, observed, scores, marked, len(labels), interface)
    allowed = op.const(np.ones(len(labels)), F64)
    if content.restriction and content.restriction in interface.inputs:
        allowed = _marked(interface.places(content.restriction, labels), len(labels), interface)
    excluded = marked
    if content.exclusion and content.exclusion in interface.inputs:
        excluded = _marked(interface.places(content.exclusion, labels), len(labels), interface)
    is_open = op.emit("Greater", op.emit("Sub", allowed, excluded), op.const(0.0, F64))
    items = op.emit("Compress", op.const(np.arange(len(labels)), I64), is_open, axis=0)
    open_scores = op.emit("Gather", similarity, items, axis=0)
    count = op.shape_of(items)
    if content.number and content.number in interface.inputs:
        wanted = op.reshape(op.cast(interface.tensor(content.number), I64), (1,))
        count = op.emit("Max", op.emit("Min", wanted, count), op.const([0], I64))
    best, order = op.emit_many("TopK", open_scores, count, dtypes=[F64, I64], axis=0, largest=1, sorted=1)
    chosen = op.emit("Gather", items, order, axis=0)
    if content.list_output:
        value = interface.output(content.list_output)
        if not isinstance(value.type, ListType):
            interface.contradict()
        interface.give_places(value, chosen, labels)
    if content.score_output:
        value = interface.output(content.score_output)
        if not isinstance(value.type, DictType):
            interface.contradict()
        interface.give_pairs(value, chosen, best, labels)


def _observed(
    content: ItemSimilarityRecommender, labels: list[Label], interface: Interface
) -> tuple[Tensor, Tensor]:
    """The given items, as indices, and their scores: 1 where they have none."""
    op = interface.op
    if interface.is_dictionary(content.items):
        return interface.pairs(content.items, labels)
    observed = op.reshape(interface.places(content.items, labels), (-1,))
    observed = op.emit("Compress", observed, op.emit("GreaterOrEqual", observed, op.const(0, I64)), axis=0)
    return observed, op.emit("Expand", op.const([1.0], F64), op.shape_of(observed))


def _marked(places: Tensor, items: int, interface: Interface) -> Tensor:
    """1 for each item that is among `places`, 0 for others, fp64 `[items]`."""
    op = interface.op
    places = op.reshape(places, (-1,))
    places = op.emit("Compress", places, op.emit("GreaterOrEqual", places, op.const(0, I64)), axis=0)
    ones = op.emit("Expand", op.const([1.0], F64), op.shape_of(places))
    return op.emit("ScatterElements", op.const(np.zeros(items), F64), places, ones, axis=0)


def _similarities(
    content: ItemSimilarityRecommender, observed: Tensor, scores: Tensor, marked: Tensor, items: int,
    interface: Interface,
) -> Tensor:  # fmt: skip
    """The score of every item, fp64 `[items]`."""
    op, emitter = interface.op, interface.emitter
    zeros = op.const(np.zeros(items), F64)
    of_items = op.emit("ScatterElements", zeros, observed, scores, axis=0)
    given = emitter.array(content.given.numpy().astype(np.int64))
    similar = emitter.array(content.similar.numpy().astype(np.int64))
    score = op.emit("Gather", of_items, given, axis=0)
    shift = op.emit("Gather", interface.weight(content.shifts, "shifts"), similar, axis=0)
    is_given = op.emit("Gather", marked, given, axis=0)
    term = op.emit("Mul", op.emit("Sub", score, shift), is_given)
    term = op.emit("Mul", term, interface.weight(content.similarities, "similarities"))
    return op.emit("ScatterElements", zeros, similar, term, axis=0, reduction="add")
