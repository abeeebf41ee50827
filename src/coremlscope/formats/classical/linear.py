"""Generalised linear models: their messages to `ir`."""

from __future__ import annotations

import numpy as np

from coremlscope import ir
from coremlscope.formats.classical.parts import doubles, name_of, read_labels, require
from coremlscope.formats.schema import Message

__all__ = ["read_glm_classifier", "read_glm_regressor"]


def read_glm_regressor(message: Message) -> ir.GLMRegressor:
    """Reads a `GLMRegressor`."""
    kind = ir.GLMRegressor.kind
    weights, offsets = _read_linear(kind, message)
    transform = name_of(message.postEvaluationTransform, "GLMRegressor.PostEvaluationTransform", kind)
    return ir.GLMRegressor(weights, offsets, transform)


def read_glm_classifier(message: Message) -> ir.GLMClassifier:
    """Reads a `GLMClassifier`."""
    kind = ir.GLMClassifier.kind
    weights, offsets = _read_linear(kind, message)
    transform = name_of(message.postEvaluationTransform, "GLMClassifier.PostEvaluationTransform", kind)
    encoding = name_of(message.classEncoding, "GLMClassifier.ClassEncoding", kind)
    labels = read_labels(message)
    # Core ML's own validation asks for the same.
    rows = len(labels) if encoding == "OneVsRest" and len(labels) > 2 else len(labels) - 1
    given = len(offsets.numpy())
    require(given == rows, kind, f"{given} rows of weights for {len(labels)} classes encoded as {encoding}")
    require(transform == "Logit" or len(labels) == 2, kind, f"Probit for {len(labels)} classes instead of 2")
    return ir.GLMClassifier(weights, offsets, transform, encoding, labels)


def _read_linear(kind: str, message: Message) -> tuple[ir.Constant, ir.Constant]:
    rows, offsets = [row.value for row in message.weights], message.offset
    require(len(rows) == len(offsets), kind, f"{len(rows)} rows of weights and {len(offsets)} offsets")
    lengths = sorted({len(row) for row in rows})
    require(len(lengths) == 1 and lengths[0] > 0, kind, f"rows of {lengths or 'no'} weights")
    return ir.constant(np.array(rows, np.float64)), doubles(offsets)
