"""Parameters of tree ensembles."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from coremlscope.model.ir import Classical, Constant

#: Apple's name of the function of the sums over all trees. With the zero class reference, the first class has
#: the score 0 and no sum.
TreeTransform = Literal[
    "NoTransform",
    "Classification_SoftMax",
    "Regression_Logistic",
    "Classification_SoftMaxWithZeroClassReference",
]
#: Apple's number for the behaviour of a leaf. The numbers 0 to 5 are branches, which compare the feature with
#: the threshold: ≤, <, ≥, >, =, ≠.
LEAF = 6


class TreeEnsemble(msgspec.Struct, frozen=True, kw_only=True):
    """Trees whose leaves are summed. The nodes of all trees are stored together.

    Attributes:
        behaviors: uint8 `[nodes]`: Apple's number for the behaviour of a node.
        feature_indices: int32 `[nodes]`: the feature that a branch compares; 0 for leaves.
        thresholds: fp64 `[nodes]`: the threshold of the comparison; 0 for leaves.
        true_children: int32 `[nodes]`: the next node if the comparison holds; -1 for leaves.
        false_children: int32 `[nodes]`: the next node if it does not; -1 for leaves.
        missing_is_true: bool `[nodes]`: a missing value (NaN) goes to the true child.
        hit_rates: fp64 `[nodes]`, or empty: how often training reached a node, relative to others; does not
            affect results.
        roots: int32 `[trees]`: the root of each tree.
        evaluated_leaves: int32 `[evaluations]`: the leaf of each value.
        evaluated_dimensions: int32 `[evaluations]`: the sum to which the value is added.
        evaluations: fp64 `[evaluations]`: the values.
        base: fp64 `[dimensions]`: the initial values of the sums.
        depth: The largest number of branches from a root to a leaf.
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


class TreeEnsembleRegressor(Classical, msgspec.Struct, frozen=True):
    """The sums over all trees, transformed."""

    kind: ClassVar[str] = "treeEnsembleRegressor"
    trees: TreeEnsemble
    transform: TreeTransform


class TreeEnsembleClassifier(Classical, msgspec.Struct, frozen=True):
    """The sums over all trees, transformed to probabilities; with one sum, that of the second class."""

    kind: ClassVar[str] = "treeEnsembleClassifier"
    trees: TreeEnsemble
    transform: TreeTransform
    labels: tuple[str | int, ...]
