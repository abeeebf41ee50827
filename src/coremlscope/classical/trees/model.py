"""Tree ensembles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from coremlscope.ir import Classical, Constant

__all__ = ["LEAF", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeTransform"]

#: What is done to the sums over all trees, in Apple's words. The softmax with a zero class reference gives
#: the first class the score 0, and has no sum for it.
TreeTransform = Literal[
    "NoTransform",
    "Classification_SoftMax",
    "Regression_Logistic",
    "Classification_SoftMaxWithZeroClassReference",
]
#: Apple's number for the behaviour of a leaf. Those of branches are 0 to 5: the feature is at most the
#: threshold, less, at least, greater, equal, or not equal.
LEAF = 6


@dataclass(frozen=True, slots=True)
class TreeEnsemble:
    """Trees whose leaves are added up, all nodes in one row.

    Attributes:
        behaviors: uint8 `[nodes]`: Apple's number of what a node does.
        feature_indices: int32 `[nodes]`: which feature a branch looks at; 0 for leaves.
        thresholds: fp64 `[nodes]`: what it compares the feature with; 0 for leaves.
        true_children: int32 `[nodes]`: the node where the comparison holds; -1 for leaves.
        false_children: int32 `[nodes]`: the node where it does not.
        missing_is_true: bool `[nodes]`: where a missing value (NaN) goes.
        hit_rates: fp64 `[nodes]`, or empty: how often a node was met in training, relative to others; says
            nothing of results.
        roots: int32 `[trees]`.
        evaluated_leaves: int32 `[evaluations]`: the leaf of each value that is added.
        evaluated_dimensions: int32 `[evaluations]`: the sum that it is added to.
        evaluations: fp64 `[evaluations]`.
        base: fp64 `[dimensions]`: what the sums begin with.
        depth: The most branches between a root and a leaf.
    """

    behaviors: Constant
    feature_indices: Constant
    thresholds: Constant
    true_children: Constant
    false_children: Constant
    missing_is_true: Constant
    hit_rates: Constant
    roots: Constant
    evaluated_leaves: Constant
    evaluated_dimensions: Constant
    evaluations: Constant
    base: Constant
    depth: int


@dataclass(frozen=True, slots=True)
class TreeEnsembleRegressor(Classical):
    """The sums over all trees, transformed."""

    kind: ClassVar[str] = "treeEnsembleRegressor"
    trees: TreeEnsemble
    transform: TreeTransform


@dataclass(frozen=True, slots=True)
class TreeEnsembleClassifier(Classical):
    """The sums over all trees, transformed to probabilities. A single sum of two classes is the second's."""

    kind: ClassVar[str] = "treeEnsembleClassifier"
    trees: TreeEnsemble
    transform: TreeTransform
    labels: tuple[str | int, ...]
