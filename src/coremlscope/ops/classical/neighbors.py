"""Nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from coremlscope.model.ir import Classical, Constant, constant
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import F64, Interface
from coremlscope.ops.classical.messages import read_labels, require
from coremlscope.ops.classical.words import count_of
from coremlscope.ops.emit import BOOL, I64, Lowering, Tensor
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView

#: How the device searches for neighbours; it does not affect results.
NeighborIndex = Literal["linearIndex", "singleKdTreeIndex"]
#: The weight of a neighbour's vote: equal, or the inverse of its squared Euclidean distance.
NeighborWeighting = Literal["uniformWeighting", "inverseDistanceWeighting"]


class KNearestNeighborsClassifier(Classical, msgspec.Struct, frozen=True, kw_only=True):
    """The most frequent class among the nearest samples, by squared Euclidean distance.

    Attributes:
        samples: fp32 `[samples, features]`; empty in a model that has not been updated yet.
        classes: int32 `[samples]`: the class of each sample.
        labels: The classes, in the order of their first samples.
        neighbors: The number of neighbours that vote.
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


def _read(message: Message) -> KNearestNeighborsClassifier:
    """Reads a `KNearestNeighborsClassifier`."""
    kind = KNearestNeighborsClassifier.kind
    index, width = message.nearestNeighborsIndex, message.nearestNeighborsIndex.numberOfDimensions
    samples = index.floatSamples
    wrong = next((len(sample.vector) for sample in samples if len(sample.vector) != width), width)
    require(wrong == width, kind, f"a sample of {wrong} numbers instead of {width}")
    require(width > 0, kind, f"{width} dimensions")
    given = read_labels(message)
    require(len(given) == len(samples), kind, f"{len(given)} labels for {len(samples)} samples")
    labels = tuple(dict.fromkeys(given))
    positions = {label: position for position, label in enumerate(labels)}
    neighbors = message.numberOfNeighbors.defaultValue
    require(neighbors > 0, kind, f"{neighbors} neighbours")
    default = message.WhichOneof("DefaultClassLabel")
    is_tree = index.WhichOneof("IndexType") == "singleKdTreeIndex"
    vectors = np.array([sample.vector for sample in samples], np.float32).reshape(len(samples), width)
    return KNearestNeighborsClassifier(
        samples=constant(vectors),
        classes=constant(np.array([positions[label] for label in given], np.int32)),
        labels=labels,
        neighbors=neighbors,
        weighting=message.WhichOneof("WeightingScheme") or "uniformWeighting",
        index="singleKdTreeIndex" if is_tree else "linearIndex",
        leaf_size=index.singleKdTreeIndex.leafSize if is_tree else 0,
        default=None if default is None else getattr(message, default),
    )


def _lower(content: KNearestNeighborsClassifier, interface: Interface) -> None:
    """Lowers a `KNearestNeighborsClassifier`; it computes all distances, whatever the index is."""
    samples, width = content.samples.numpy().shape
    op, classes = interface.op, len(content.labels)
    x = interface.row(width)
    if samples == 0:
        if content.default is None:
            raise interface.error("has neither samples nor a default label")
        interface.give_classes(op.const([0], I64), op.const([1.0], F64), (content.default,))
        return
    apart = op.emit("Sub", interface.weight(content.samples, "samples"), x)
    distances = op.emit("ReduceSumSquare", apart, op.const([1], I64), keepdims=0)
    count = op.const([min(content.neighbors, samples)], I64)
    nearest, found = op.emit_many("TopK", distances, count, dtypes=[F64, I64], axis=0, largest=0, sorted=1)
    weights = _weights(content, op, nearest)
    of_sample = interface.emitter.array(content.classes.numpy().astype(np.int64))
    voted = op.emit("Gather", of_sample, found, axis=0)
    zeros = op.const(np.zeros(classes), F64)
    votes = op.emit("ScatterElements", zeros, voted, weights, axis=0, reduction="add")
    total = op.emit("ReduceSum", votes, op.const([0], I64), keepdims=1)
    index = op.emit("ArgMax", votes, dtype=I64, axis=0, keepdims=1)
    interface.give_classes(index, op.emit("Div", votes, total), content.labels)


def _weights(content: KNearestNeighborsClassifier, op: Lowering, distances: Tensor) -> Tensor:
    """The weight of each neighbour's vote; samples that equal the features outweigh all others."""
    one, nothing = op.const(1.0, F64), op.const(0.0, F64)
    if content.weighting == "uniformWeighting":
        return op.emit("Expand", op.const([1.0], F64), op.shape_of(distances))
    is_equal = op.emit("Equal", distances, nothing)
    inverse = op.emit("Div", one, op.emit("Where", is_equal, one, distances, dtype=F64))
    equal = op.cast(is_equal, F64)
    any_equal = op.emit("Greater", op.emit("ReduceMax", equal, op.const([0], I64), keepdims=1), nothing)
    return op.emit("Where", op.cast(any_equal, BOOL), equal, inverse, dtype=F64)


def _work(view: OpView) -> Work:
    """A difference, its square and their sum per element of a sample; a comparison per sample."""
    samples, features = view.static_shape("samples")
    return moved(view, samples * (3 * features + 1))


def _describe(content: KNearestNeighborsClassifier) -> Iterator[Fact]:
    samples, features = content.samples.numpy().shape
    yield "samples", f"{samples} of {count_of(features, 'feature')}"
    votes = "equal votes" if content.weighting == "uniformWeighting" else "votes by inverse distance"
    yield "neighbours", f"{content.neighbors}, {votes}"
    tree = f"k-d tree, {content.leaf_size} samples a leaf"
    yield "index", tree if content.index == "singleKdTreeIndex" else "linear"
    if content.default is not None:
        yield "default", str(content.default)


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=KNearestNeighborsClassifier,
        read=_read,
        lower=_lower,
        work=_work,
        describe=_describe,
    ),
)
