"""What a classical model is made of, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coremlscope.ir import Classical, Constant, GLMClassifier, GLMRegressor
from coremlscope.ir.classical import (
    LEAF,
    ArrayFeatureExtractor,
    BayesianProbitRegressor,
    CategoricalMapping,
    DenseVectors,
    DictVectorizer,
    FeatureVectorizer,
    Imputer,
    ItemSimilarityRecommender,
    Kernel,
    KNearestNeighborsClassifier,
    LinearKernel,
    NonMaximumSuppression,
    Normalizer,
    OneHotEncoder,
    PolyKernel,
    RBFKernel,
    Scaler,
    SupportVectorClassifier,
    SupportVectorRegressor,
    SupportVectors,
    TreeEnsemble,
    TreeEnsembleClassifier,
    TreeEnsembleRegressor,
)

__all__ = ["describe_classical"]

_Pair = tuple[str, str]
#: Keys, columns and elements that are spelled out; the rest is counted.
_LISTED = 6

_TRANSFORMS = {
    "NoTransform": "none",
    "Logit": "logistic",
    "Probit": "probit",
    "Classification_SoftMax": "softmax",
    "Regression_Logistic": "logistic",
    "Classification_SoftMaxWithZeroClassReference": "softmax, the first class being the reference",
}
_NORMS = {"LMax": "largest magnitude (LMax)", "L1": "sum of magnitudes (L1)", "L2": "root of squares (L2)"}


def describe_classical(content: Classical) -> Iterator[_Pair]:
    """Pairs of what and how."""
    match content:
        case GLMRegressor() | GLMClassifier():
            rows, features = content.weights.numpy().shape
            yield "features", str(features)
            yield "rows of weights", str(rows)
            if isinstance(content, GLMClassifier):
                yield (
                    "encoding",
                    "one class against the rest"
                    if content.encoding == "OneVsRest"
                    else ("the first class is the reference"),
                )
            yield "transform", _TRANSFORMS[content.transform]
        case TreeEnsembleRegressor() | TreeEnsembleClassifier():
            yield from _trees(content.trees)
            yield "transform", _TRANSFORMS[content.transform]
        case SupportVectorRegressor() | SupportVectorClassifier():
            yield from _support(content.support)
            yield "kernel", _kernel(content.kernel)
            if isinstance(content, SupportVectorClassifier):
                yield "probabilities", "none: classes vote" if content.prob_a is None else "of pairs, coupled"
        case KNearestNeighborsClassifier():
            yield from _neighbors(content)
        case BayesianProbitRegressor():
            yield "features", str(content.feature_count)
            yield "weights", f"{len(content.means.numpy())}, each with a mean and a variance"
        case ItemSimilarityRecommender():
            yield "items", _listed(content.keys)
            yield "similarities", str(len(content.similarities.numpy()))
        case NonMaximumSuppression():
            yield "suppresses", "boxes of the same class" if content.is_per_class else "boxes of any class"
            yield "overlap above", f"{content.iou_threshold:g} of the union{_override(content.iou_input)}"
            least = content.confidence_threshold
            yield "confidence below", f"{least:g}{_override(content.confidence_threshold_input)}"
        case _:
            yield from _engineering(content)


def _trees(trees: TreeEnsemble) -> Iterator[_Pair]:
    behaviors, roots = trees.behaviors.numpy(), len(trees.roots.numpy())
    is_leaf = behaviors == LEAF
    used = np.unique(trees.feature_indices.numpy()[~is_leaf])
    leaves = int(is_leaf.sum())
    yield "trees", f"{_count(roots, 'tree')} of {_count(len(behaviors), 'node')}, {leaves} of them leaves"
    yield "depth", f"at most {trees.depth} branch{'' if trees.depth == 1 else 'es'}"
    yield "looks at", _count(len(used), "feature")
    yield "adds up", _count(len(trees.base.numpy()), "sum")


def _support(support: SupportVectors) -> Iterator[_Pair]:
    if isinstance(support, DenseVectors):
        yield "support vectors", f"{support.count} of {support.vectors.numpy().shape[1]} features"
    else:
        yield "support vectors", f"{support.count}, sparse, of {len(support.elements.numpy())} elements"


def _kernel(kernel: Kernel) -> str:
    match kernel:
        case LinearKernel():
            return "linear"
        case RBFKernel(gamma):
            return f"radial (RBF), gamma {gamma:g}"
        case PolyKernel(degree, c, gamma):
            return f"polynomial of degree {degree}, gamma {gamma:g}, c {c:g}"
        case _:
            return f"sigmoid, gamma {kernel.gamma:g}, c {kernel.c:g}"


def _neighbors(content: KNearestNeighborsClassifier) -> Iterator[_Pair]:
    samples, features = content.samples.numpy().shape
    yield "samples", f"{samples} of {_count(features, 'feature')}"
    votes = "equal votes" if content.weighting == "uniformWeighting" else "votes by inverse distance"
    yield "neighbours", f"{content.neighbors}, {votes}"
    tree = f"k-d tree, {content.leaf_size} samples a leaf"
    yield "index", tree if content.index == "singleKdTreeIndex" else "linear"
    if content.default is not None:
        yield "default", str(content.default)


def _engineering(content: Classical) -> Iterator[_Pair]:
    match content:
        case OneHotEncoder():
            yield "categories", _listed(content.keys)
            yield "others", "give zeros" if content.ignores_unknown else "are an error"
        case DictVectorizer():
            yield "keys", _listed(content.keys)
        case CategoricalMapping():
            yield "maps", _listed(content.keys)
            default = content.default
            yield "others", "are an error" if default is None else f"become {default!r}"
        case FeatureVectorizer():
            names = [f"{name} ({size})" for name, size in content.columns[:_LISTED]]
            yield "columns", ", ".join(names) + _rest(len(content.columns))
        case ArrayFeatureExtractor():
            yield "elements", _listed(content.indices)
        case Imputer():
            replaced = "NaN or absent" if content.replaced is None else repr(content.replaced)
            yield "replaces", replaced
            values = _listed(content.imputed)
            yield "by", values if content.keys is None else f"{values} of {_listed(content.keys)}"
        case Normalizer():
            yield "divides by", _NORMS[content.norm]
        case Scaler():
            yield "adds", _listed(content.shift)
            yield "multiplies by", _listed(content.scale)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _override(name: str) -> str:
    return f", or the input {name!r}" if name else ""


def _listed(constant: Constant) -> str:
    """The first elements of an array, and how many there are."""
    items = constant.numpy().reshape(-1)
    first = (repr(i) if isinstance(i, str) else f"{i:g}" for i in items[:_LISTED].tolist())
    return ", ".join(first) + _rest(len(items))


def _rest(count: int) -> str:
    return "" if count <= _LISTED else f", … ({count} in all)"
