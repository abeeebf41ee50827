"""The item similarity recommender."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coremlscope.ir.data import Constant

__all__ = ["ItemSimilarityRecommender"]


@dataclass(frozen=True, slots=True)
class ItemSimilarityRecommender:
    """The items that are most similar to given ones.

    The score of an item k is the sum over the given items i of
    `similarity(k, i) · (score of i - shift of k)`.

    Attributes:
        keys: The items: strings or int64 `[items]`.
        given: int32 `[similarities]`: the item i.
        similar: int32 `[similarities]`: the item k.
        similarities: fp64 `[similarities]`.
        shifts: fp64 `[items]`.
        items: The input with the given items, and their scores if it is a dictionary.
        number: The input with how many items are wanted; empty for none: all.
        restriction: The input with the items to choose from; empty for none: all.
        exclusion: The input with items that are not wanted; empty for none: the given ones.
        list_output: The items, the most similar first; empty for none.
        score_output: Their scores; empty for none.
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
