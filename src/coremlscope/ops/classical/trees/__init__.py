"""Tree ensembles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import ArrayFeature, DoubleFeature, Feature
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.trees.lower import (
    lower_tree_ensemble_classifier,
    lower_tree_ensemble_regressor,
)
from coremlscope.ops.classical.trees.model import (
    LEAF,
    TreeEnsembleClassifier,
    TreeEnsembleRegressor,
    TreeTransform,
)
from coremlscope.ops.classical.trees.read import read_tree_ensemble_classifier, read_tree_ensemble_regressor
from coremlscope.ops.classical.words import count_of
from coremlscope.ops.spec import Work, bytes_of, moved
from coremlscope.ops.view import OpView

__all__ = ["TYPES", "TreeEnsembleClassifier", "TreeEnsembleRegressor"]

_TRANSFORM_NAMES: Mapping[TreeTransform, str] = {
    "NoTransform": "none",
    "Classification_SoftMax": "softmax",
    "Regression_Logistic": "logistic",
    "Classification_SoftMaxWithZeroClassReference": "softmax with the first class as the reference",
}
#: Bytes of a threshold or a leaf's value.
_VALUE_BYTES = 8
#: Bytes that one branch reads: the behaviour, feature, threshold and one child.
_STEP_BYTES = 1 + 4 + _VALUE_BYTES + 4


def _work(view: OpView) -> Work:
    """At most a comparison per level of each tree, and an addition per value of a reached leaf."""
    (trees,), (sums,) = view.static_shape("roots"), view.static_shape("base")
    steps = trees * int(view.value("depth"))
    evaluations, leaves = view.static_shape("evaluations")[0], 1 + view.static_shape("behaviors")[0] // 2
    added = trees * -(-evaluations // leaves)
    whole = moved(view)
    stored = whole.read_bytes - sum(bytes_of(type_)[0] for type_ in view.types("features"))
    touched = min(steps * _STEP_BYTES + _VALUE_BYTES * (added + sums), stored)
    weights = min(_VALUE_BYTES * (steps + added + sums), whole.weight_bytes)
    read = whole.read_bytes - stored + touched
    return replace(whole, flops=steps + added + sums, read_bytes=read, weight_bytes=weights)


def _describe(content: TreeEnsembleRegressor | TreeEnsembleClassifier) -> Iterator[Fact]:
    trees = content.trees
    behaviors, roots = trees.behaviors.numpy(), len(trees.roots.numpy())
    is_leaf = behaviors == LEAF
    used = np.unique(trees.feature_indices.numpy()[~is_leaf])
    leaves = int(is_leaf.sum())
    if is_leaf.all():
        yield "trees", f"{count_of(roots, 'tree')}{', each' if roots > 1 else ''} of a single leaf"
        yield "uses", "no feature: the result is the same for all inputs"
    else:
        nodes = count_of(len(behaviors), "node")
        yield "trees", f"{count_of(roots, 'tree')} of {nodes}, {leaves} of them leaves"
        yield "depth", f"at most {trees.depth} branch{'' if trees.depth == 1 else 'es'}"
        yield "uses", count_of(len(used), "feature")
    yield "computes", count_of(len(trees.base.numpy()), "sum")
    yield "transform", _TRANSFORM_NAMES[content.transform]


def _absent_values(
    content: TreeEnsembleRegressor | TreeEnsembleClassifier,
    absent: Sequence[Feature],
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """NaN: each branch has a child for missing values."""
    return {feature.name: _missing(feature) for feature in absent}


def _missing(feature: Feature) -> Any:
    match feature.type:
        case DoubleFeature():
            return np.nan
        case ArrayFeature(dtype=dtype, shape=shape, default=None) if dtype.is_float:
            return np.full(shape or 1, np.nan)
        case _:
            return None


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=TreeEnsembleRegressor,
        read=read_tree_ensemble_regressor,
        lower=lower_tree_ensemble_regressor,
        work=_work,
        describe=_describe,
        absent_values=_absent_values,
    ),
    ClassicalType(
        content=TreeEnsembleClassifier,
        read=read_tree_ensemble_classifier,
        lower=lower_tree_ensemble_classifier,
        work=_work,
        describe=_describe,
        absent_values=_absent_values,
    ),
)
