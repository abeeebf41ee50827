"""Nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from coremlscope.ir.data import Constant

__all__ = ["KNearestNeighborsClassifier", "NeighborIndex", "NeighborWeighting"]

#: How neighbours are searched for on the device; says nothing of results.
NeighborIndex = Literal["linearIndex", "singleKdTreeIndex"]
#: What a neighbour's vote weighs: each the same, or the inverse of its squared Euclidean distance.
NeighborWeighting = Literal["uniformWeighting", "inverseDistanceWeighting"]


@dataclass(frozen=True, slots=True)
class KNearestNeighborsClassifier:
    """The class that most of the nearest samples have, by squared Euclidean distance.

    Attributes:
        samples: fp32 `[samples, features]`; there may be none, as long as the model was not updated.
        classes: int32 `[samples]`: the class of each sample.
        labels: The classes, in the order in which samples name them.
        neighbors: How many neighbours vote.
        default: The label where there are no samples.
        leaf_size: Samples in a leaf of the k-d tree; 0 for a linear index.
    """

    kind: ClassVar[str] = "kNearestNeighborsClassifier"
    samples: Constant
    classes: Constant
    labels: tuple[str | int, ...]
    neighbors: int
    weighting: NeighborWeighting
    index: NeighborIndex
    leaf_size: int
    default: str | int | None
