"""Nearest neighbours to ONNX: the distances to all samples, whatever the index on the device."""

from __future__ import annotations

import numpy as np

from coremlscope.ir.classical import KNearestNeighborsClassifier
from coremlscope.lower.classical.interface import F64, Interface
from coremlscope.ops.emit import BOOL, I64, Lowering, Tensor

__all__ = ["lower_k_nearest_neighbors_classifier"]


def lower_k_nearest_neighbors_classifier(content: KNearestNeighborsClassifier, interface: Interface) -> None:
    """Lowers a `KNearestNeighborsClassifier`."""
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
    nearest, places = op.emit_many("TopK", distances, count, dtypes=[F64, I64], axis=0, largest=0, sorted=1)
    weights = _weights(content, op, nearest)
    of_sample = interface.emitter.array(content.classes.numpy().astype(np.int64))
    voted = op.emit("Gather", of_sample, places, axis=0)
    zeros = op.const(np.zeros(classes), F64)
    votes = op.emit("ScatterElements", zeros, voted, weights, axis=0, reduction="add")
    total = op.emit("ReduceSum", votes, op.const([0], I64), keepdims=1)
    place = op.emit("ArgMax", votes, dtype=I64, axis=0, keepdims=1)
    interface.give_classes(place, op.emit("Div", votes, total), content.labels)


def _weights(content: KNearestNeighborsClassifier, op: Lowering, distances: Tensor) -> Tensor:
    """What each neighbour's vote weighs; samples that are equal to the features outweigh all others."""
    one, nothing = op.const(1.0, F64), op.const(0.0, F64)
    if content.weighting == "uniformWeighting":
        return op.emit("Expand", op.const([1.0], F64), op.shape_of(distances))
    is_equal = op.emit("Equal", distances, nothing)
    inverse = op.emit("Div", one, op.emit("Where", is_equal, one, distances, dtype=F64))
    equal = op.cast(is_equal, F64)
    any_equal = op.emit("Greater", op.emit("ReduceMax", equal, op.const([0], I64), keepdims=1), nothing)
    return op.emit("Where", op.cast(any_equal, BOOL), equal, inverse, dtype=F64)
