"""Nearest neighbours: their message to `ir`."""

from __future__ import annotations

import numpy as np

from coremlscope import ir
from coremlscope.formats.classical.parts import read_labels, require
from coremlscope.formats.schema import Message
from coremlscope.ir.classical import KNearestNeighborsClassifier

__all__ = ["read_k_nearest_neighbors_classifier"]


def read_k_nearest_neighbors_classifier(message: Message) -> KNearestNeighborsClassifier:
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
    places = {label: place for place, label in enumerate(labels)}
    neighbors = message.numberOfNeighbors.defaultValue
    require(neighbors > 0, kind, f"{neighbors} neighbours")
    default = message.WhichOneof("DefaultClassLabel")
    is_tree = index.WhichOneof("IndexType") == "singleKdTreeIndex"
    vectors = np.array([sample.vector for sample in samples], np.float32).reshape(len(samples), width)
    return KNearestNeighborsClassifier(
        ir.constant(vectors),
        ir.constant(np.array([places[label] for label in given], np.int32)),
        labels,
        neighbors,
        message.WhichOneof("WeightingScheme") or "uniformWeighting",
        "singleKdTreeIndex" if is_tree else "linearIndex",
        index.singleKdTreeIndex.leafSize if is_tree else 0,
        None if default is None else getattr(message, default),
    )
