"""The item similarity recommender."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from coremlscope.model.ir import Classical, Constant, DictType, Feature, ListType, constant
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import F64, Interface, Label
from coremlscope.ops.classical.messages import doubles, indices, keys_of, require
from coremlscope.ops.classical.words import list_elements
from coremlscope.ops.emit import I64, Tensor
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView

#: The highest number of items without names. It keeps one wrong number in a file from allocating more.
_MOST_UNNAMED = 2**24


class ItemSimilarityRecommender(Classical, msgspec.Struct, frozen=True, kw_only=True):
    """The items most similar to the given items.

    The score of an item k is the sum over the given items i of
    `similarity(k, i) · (score of i - shift of k)`.

    Attributes:
        keys: The items: strings or int64 `[items]`.
        given: int32 `[similarities]`: the item i.
        similar: int32 `[similarities]`: the item k.
        similarities: fp64 `[similarities]`.
        shifts: fp64 `[items]`.
        items: The input with the given items; a dictionary also holds their scores.
        number: The input with the number of wanted items; empty for none, which means all.
        restriction: The input with the items to choose from; empty for none, which means all.
        exclusion: The input with unwanted items; empty for none, which means the given items.
        list_output: The output with the items, the most similar first; empty for none.
        score_output: The output with their scores; empty for none.
    """

    kind: ClassVar[str] = "itemSimilarityRecommender"
    keys: Constant
    given: Constant
    similar: Constant
    similarities: Constant
    shifts: Constant
    items: str
    number: str
    restriction: str
    exclusion: str
    list_output: str
    score_output: str


def _read(message: Message) -> ItemSimilarityRecommender:
    """Reads an `ItemSimilarityRecommender`."""
    kind, rows = ItemSimilarityRecommender.kind, message.itemItemSimilarities
    strings, integers = message.itemStringIds.vector, message.itemInt64Ids.vector
    require(not (strings and integers), kind, "names of items and numbers of items")
    entries = [(row.itemId, item) for row in rows for item in row.similarItemList]
    highest = max([row.itemId for row in rows] + [item.itemId for _, item in entries], default=-1)
    count = len(strings) or len(integers) or highest + 1
    require(highest < count, kind, f"the item {highest} of {count}")
    require(count <= _MOST_UNNAMED or strings or integers, kind, f"{count} items without names")
    names = strings or integers or range(count)
    shifts = np.zeros(count)
    for row in rows:
        shifts[row.itemId] = row.itemScoreAdjustment
    require(message.itemInputFeatureName != "", kind, "no name of its input of items")
    outputs = message.recommendedItemListOutputFeatureName, message.recommendedItemScoreOutputFeatureName
    require(any(outputs), kind, "no name of an output")
    return ItemSimilarityRecommender(
        keys=keys_of(names, bool(strings), kind),
        given=constant(indices((given for given, _ in entries), count, kind, "the item")),
        similar=constant(indices((item.itemId for _, item in entries), count, kind, "the item")),
        similarities=doubles(item.similarityScore for _, item in entries),
        shifts=constant(shifts),
        items=message.itemInputFeatureName,
        number=message.numRecommendationsInputFeatureName,
        restriction=message.itemRestrictionInputFeatureName,
        exclusion=message.itemExclusionInputFeatureName,
        list_output=outputs[0],
        score_output=outputs[1],
    )


def _lower(content: ItemSimilarityRecommender, interface: Interface) -> None:
    """Lowers an `ItemSimilarityRecommender`; items of equal score keep their order."""
    op, labels = interface.op, content.keys.numpy().tolist()
    observed, scores = _observed(content, labels, interface)
    marked = _marked(observed, len(labels), interface)
    similarity = _similarities(content, observed, scores, marked, interface)
    allowed = op.const(np.ones(len(labels)), F64)
    if content.restriction and content.restriction in interface.inputs:
        allowed = _marked(interface.label_indices(content.restriction, labels), len(labels), interface)
    excluded = marked
    if content.exclusion and content.exclusion in interface.inputs:
        excluded = _marked(interface.label_indices(content.exclusion, labels), len(labels), interface)
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
        interface.give_labels(value, chosen, labels)
    if content.score_output:
        value = interface.output(content.score_output)
        if not isinstance(value.type, DictType):
            interface.contradict()
        interface.give_pairs(value, chosen, best, labels)


def _observed(
    content: ItemSimilarityRecommender, labels: list[Label], interface: Interface
) -> tuple[Tensor, Tensor]:
    """The indices of the given items and their scores, which default to 1."""
    op = interface.op
    if interface.is_dictionary(content.items):
        return interface.pairs(content.items, labels)
    observed = op.reshape(interface.label_indices(content.items, labels), (-1,))
    observed = op.emit("Compress", observed, op.emit("GreaterOrEqual", observed, op.const(0, I64)), axis=0)
    return observed, op.emit("Expand", op.const([1.0], F64), op.shape_of(observed))


def _marked(indices: Tensor, items: int, interface: Interface) -> Tensor:
    """1 for each item in `indices`, 0 for the others, fp64 `[items]`; negative indices are ignored."""
    op = interface.op
    indices = op.reshape(indices, (-1,))
    is_known = op.emit("GreaterOrEqual", indices, op.const(0, I64))
    indices = op.emit("Compress", indices, is_known, axis=0)
    ones = op.emit("Expand", op.const([1.0], F64), op.shape_of(indices))
    return op.emit("ScatterElements", op.const(np.zeros(items), F64), indices, ones, axis=0)


def _similarities(
    content: ItemSimilarityRecommender,
    observed: Tensor,
    scores: Tensor,
    marked: Tensor,
    interface: Interface,
) -> Tensor:
    """The score of every item, fp64 `[items]`."""
    op, emitter = interface.op, interface.emitter
    zeros = op.const(np.zeros(len(content.shifts.numpy())), F64)
    of_items = op.emit("ScatterElements", zeros, observed, scores, axis=0)
    given = emitter.array(content.given.numpy().astype(np.int64))
    similar = emitter.array(content.similar.numpy().astype(np.int64))
    score = op.emit("Gather", of_items, given, axis=0)
    shift = op.emit("Gather", interface.weight(content.shifts, "shifts"), similar, axis=0)
    is_given = op.emit("Gather", marked, given, axis=0)
    term = op.emit("Mul", op.emit("Sub", score, shift), is_given)
    term = op.emit("Mul", term, interface.weight(content.similarities, "similarities"))
    return op.emit("ScatterElements", zeros, similar, term, axis=0, reduction="add")


def _work(view: OpView) -> Work:
    """A difference and a multiply-add per similarity; a comparison per item."""
    return moved(view, 3 * view.static_shape("similarities")[0] + view.static_shape("shifts")[0])


def _describe(content: ItemSimilarityRecommender) -> Iterator[Fact]:
    yield "items", list_elements(content.keys)
    yield "similarities", str(len(content.similarities.numpy()))


def _absent_values(
    content: ItemSimilarityRecommender, absent: Sequence[Feature], values: Mapping[str, Any]
) -> dict[str, Any]:
    """All items except the given ones."""
    items: list[Any] = content.keys.numpy().tolist()
    return {
        content.number: len(items),
        content.restriction: items,
        content.exclusion: list(values.get(content.items, ())),
    }


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=ItemSimilarityRecommender,
        read=_read,
        lower=_lower,
        work=_work,
        describe=_describe,
        absent_values=_absent_values,
    ),
)
