"""The item similarity recommender: its message to `ir`."""

from __future__ import annotations

import numpy as np

from coremlscope import ir
from coremlscope.formats.classical.parts import doubles, indices, keys_of, require
from coremlscope.formats.schema import Message
from coremlscope.ir.classical import ItemSimilarityRecommender

__all__ = ["read_item_similarity_recommender"]

#: Items that are known by number alone: more than that are not called up by one number in the file.
_MOST_UNNAMED = 2**24


def read_item_similarity_recommender(message: Message) -> ItemSimilarityRecommender:
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
        keys_of(names, bool(strings), kind),
        ir.constant(indices((given for given, _ in entries), count, kind, "the item")),
        ir.constant(indices((item.itemId for _, item in entries), count, kind, "the item")),
        doubles(item.similarityScore for _, item in entries),
        ir.constant(shifts),
        message.itemInputFeatureName,
        message.numRecommendationsInputFeatureName,
        message.itemRestrictionInputFeatureName,
        message.itemExclusionInputFeatureName,
        *outputs,
    )
