"""What classical models cost by nature: FLOPs and bytes. One row a kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from coremlscope.ir import TensorType
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView

__all__ = ["CLASSICAL_WORK"]

#: Bytes that a step down a tree reads: the behaviour, feature, threshold and one child of a node.
_STEP_BYTES = 1 + 4 + 8 + 4


def _linear(view: OpView) -> Work:
    """A multiply-add per weight, and what the transform takes per row: counted as one."""
    rows, features = view.static_shape("weights")
    return moved(view, rows * (2 * features + 1))


def _trees(view: OpView) -> Work:
    """A comparison for each step from root to leaf, at most; a leaf adds to one sum, or to all of them."""
    (trees,), (sums,) = view.static_shape("roots"), view.static_shape("base")
    steps = trees * int(view.value("depth"))
    evaluations, leaves = view.static_shape("evaluations")[0], 1 + view.static_shape("behaviors")[0] // 2
    added = trees * -(-evaluations // leaves)
    whole = moved(view)
    touched = min(steps * _STEP_BYTES + 8 * (added + sums), whole.weight_bytes)
    inputs = whole.read_bytes - whole.weight_bytes
    return Work(steps + added + sums, inputs + touched, touched, whole.written_bytes, whole.is_complete)


def _support_vectors(view: OpView) -> Work:
    """A multiply-add per element of a vector and per coefficient, and one operation per kernel."""
    if view.has("vectors"):
        vectors, features = view.static_shape("vectors")
        elements = vectors * features
    else:
        elements, vectors = view.static_shape("elements")[0], int(view.value("count"))
    coefficients = math.prod(view.static_shape("coefficients"))
    return moved(view, 2 * elements + vectors + 2 * coefficients)


def _neighbors(view: OpView) -> Work:
    """A difference, its square and their sum per element of a sample; a comparison per sample."""
    samples, features = view.static_shape("samples")
    return moved(view, samples * (3 * features + 1))


def _probit(view: OpView) -> Work:
    """Two comparisons and two multiply-adds per weight, for the mean and for the variance."""
    return moved(view, 6 * view.static_shape("means")[0])


def _recommender(view: OpView) -> Work:
    """A difference and a multiply-add per similarity; a comparison per item."""
    return moved(view, 3 * view.static_shape("similarities")[0] + view.static_shape("shifts")[0])


def _suppression(view: OpView) -> Work:
    """A comparison per confidence; the boxes that are left depend on the confidences."""
    elements = [type_.elements for type_ in view.types("features") if isinstance(type_, TensorType)]
    work = moved(view, sum(size or 0 for size in elements))
    return Work(work.flops, work.read_bytes, work.weight_bytes, work.written_bytes, is_complete=False)


def _per_result(flops: int) -> Callable[[OpView], Work]:
    """So many operations for each number that is given."""

    def work(view: OpView) -> Work:
        types = [result.type for result in view.outputs]
        return moved(view, sum(flops * (t.elements or 0) for t in types if isinstance(t, TensorType)))

    return work


#: By the operation's type; as in a row of the table of operations.
CLASSICAL_WORK: Mapping[str, Callable[[OpView], Work]] = {
    "glmRegressor": _linear,
    "glmClassifier": _linear,
    "treeEnsembleRegressor": _trees,
    "treeEnsembleClassifier": _trees,
    "supportVectorRegressor": _support_vectors,
    "supportVectorClassifier": _support_vectors,
    "kNearestNeighborsClassifier": _neighbors,
    "bayesianProbitRegressor": _probit,
    "itemSimilarityRecommender": _recommender,
    "nonMaximumSuppression": _suppression,
    "oneHotEncoder": _per_result(1),
    "imputer": _per_result(1),
    "featureVectorizer": _per_result(0),
    "dictVectorizer": _per_result(0),
    "scaler": _per_result(2),
    "categoricalMapping": _per_result(1),
    "normalizer": _per_result(3),
    "arrayFeatureExtractor": _per_result(0),
    "identity": _per_result(0),
}
