"""Generalised linear models.

The lowering uses products and functions of ONNX's default domain, in float64. ONNX-ML's `LinearRegressor` and
`LinearClassifier` give float32, where Core ML gives doubles, and their `PROBIT` is the inverse of Core ML's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from coremlscope.model.ir import Classical, Constant, constant
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import F64, Interface
from coremlscope.ops.classical.messages import doubles, name_of, read_labels, require
from coremlscope.ops.classical.normal_cdf import normal_cdf
from coremlscope.ops.emit import I64, Lowering, Tensor
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView

#: Apple's name of the function of a linear score `s`: none, the logistic function `1 / (1 + exp(-s))`, or the
#: cumulative distribution function of the standard normal distribution.
Transform = Literal["NoTransform", "Logit", "Probit"]
#: The class of each row of weights: every class except the first, or each class against all others. With two
#: classes there is one row in either encoding, for the second class.
ClassEncoding = Literal["ReferenceClass", "OneVsRest"]
_TRANSFORM_NAMES: Mapping[Transform, str] = {"NoTransform": "none", "Logit": "logistic", "Probit": "probit"}


class GLMRegressor(Classical, msgspec.Struct, frozen=True):
    """A generalised linear regression: `transform(weights · x + offsets)`.

    Attributes:
        weights: fp64 `[results, features]`.
        offsets: fp64 `[results]`.
    """

    kind: ClassVar[str] = "glmRegressor"
    weights: Constant
    offsets: Constant
    transform: Transform


class GLMClassifier(Classical, msgspec.Struct, frozen=True, kw_only=True):
    """A generalised linear classification: the scores `weights · x + offsets` become probabilities.

    Attributes:
        weights: fp64 `[rows, features]`; see `encoding`.
        offsets: fp64 `[rows]`.
        transform: `Logit`, or with two classes `Probit`.
        labels: The classes.
    """

    kind: ClassVar[str] = "glmClassifier"
    weights: Constant
    offsets: Constant
    transform: Transform
    encoding: ClassEncoding
    labels: tuple[str | int, ...]


def _read_regressor(message: Message) -> GLMRegressor:
    """Reads a `GLMRegressor`."""
    kind = GLMRegressor.kind
    weights, offsets = _read_linear(kind, message)
    transform = name_of(message.postEvaluationTransform, "GLMRegressor.PostEvaluationTransform", kind)
    return GLMRegressor(weights, offsets, transform)


def _read_classifier(message: Message) -> GLMClassifier:
    """Reads a `GLMClassifier`."""
    kind = GLMClassifier.kind
    weights, offsets = _read_linear(kind, message)
    transform = name_of(message.postEvaluationTransform, "GLMClassifier.PostEvaluationTransform", kind)
    encoding = name_of(message.classEncoding, "GLMClassifier.ClassEncoding", kind)
    labels = read_labels(message)
    # Core ML's own validation requires the same.
    rows = len(labels) if encoding == "OneVsRest" and len(labels) > 2 else len(labels) - 1
    given = len(offsets.numpy())
    require(given == rows, kind, f"{given} rows of weights for {len(labels)} classes encoded as {encoding}")
    require(transform == "Logit" or len(labels) == 2, kind, f"Probit for {len(labels)} classes instead of 2")
    return GLMClassifier(
        weights=weights, offsets=offsets, transform=transform, encoding=encoding, labels=labels
    )


def _read_linear(kind: str, message: Message) -> tuple[Constant, Constant]:
    rows, offsets = [row.value for row in message.weights], message.offset
    require(len(rows) == len(offsets), kind, f"{len(rows)} rows of weights and {len(offsets)} offsets")
    lengths = sorted({len(row) for row in rows})
    require(len(lengths) == 1 and lengths[0] > 0, kind, f"rows of {lengths or 'no'} weights")
    return constant(np.array(rows, np.float64)), doubles(offsets)


def _lower_regressor(content: GLMRegressor, interface: Interface) -> None:
    """Lowers a `GLMRegressor`."""
    scores = _linear(content.weights, content.offsets, interface)
    result = _transformed(content.transform, interface.op, scores)
    interface.give(interface.only_output(), result, len(content.offsets.numpy()))


def _lower_classifier(content: GLMClassifier, interface: Interface) -> None:
    """Lowers a `GLMClassifier`: the class with the highest score is the label."""
    scores, probabilities = _classify(content, interface)
    index = interface.op.emit("ArgMax", scores, dtype=I64, axis=1, keepdims=0)
    interface.give_classes(index, probabilities, content.labels)


def _linear(weights: Constant, offsets: Constant, interface: Interface) -> Tensor:
    """`weights · x + offsets`, `[1, rows]`, where x is the concatenation of all features."""
    rows, width = weights.numpy().shape
    op = interface.op
    product = op.emit("Gemm", interface.row(width), interface.weight(weights, "weights"), transB=1)
    return op.emit("Add", product, op.reshape(interface.weight(offsets, "offsets"), (1, rows)))


def _transformed(transform: Transform, op: Lowering, scores: Tensor) -> Tensor:
    match transform:
        case "NoTransform":
            return scores
        case "Logit":
            return op.emit("Sigmoid", scores)
        case "Probit":
            return normal_cdf(op, scores)


def _classify(content: GLMClassifier, interface: Interface) -> tuple[Tensor, Tensor]:
    """The score and the probability of each class, both `[1, classes]`."""
    op = interface.op
    scores = _linear(content.weights, content.offsets, interface)
    if len(content.labels) == 2:
        # Both transforms are symmetric: transform(-s) = 1 - transform(s).
        scores = op.emit("Concat", op.emit("Neg", scores), scores, axis=1)
        return scores, _transformed(content.transform, op, scores)
    if content.encoding == "ReferenceClass":
        scores = op.emit("Concat", op.const([[0.0]], F64), scores, axis=1)
        return scores, op.emit("Softmax", scores, axis=1)
    each = _transformed(content.transform, op, scores)
    total = op.emit("ReduceSum", each, op.const([1], I64), keepdims=1)
    return scores, op.emit("Div", each, total)


def _work(view: OpView) -> Work:
    """A multiply-add per weight, and one operation for the transform of each row."""
    rows, features = view.static_shape("weights")
    return moved(view, rows * (2 * features + 1))


def _describe(content: GLMRegressor | GLMClassifier) -> Iterator[Fact]:
    rows, features = content.weights.numpy().shape
    yield "features", str(features)
    yield "rows of weights", str(rows)
    if isinstance(content, GLMClassifier):
        is_one_vs_rest = content.encoding == "OneVsRest"
        yield (
            "encoding",
            "one class against the rest" if is_one_vs_rest else "the first class is the reference",
        )
    yield "transform", _TRANSFORM_NAMES[content.transform]


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=GLMRegressor,
        read=_read_regressor,
        lower=_lower_regressor,
        work=_work,
        describe=_describe,
    ),
    ClassicalType(
        content=GLMClassifier,
        read=_read_classifier,
        lower=_lower_classifier,
        work=_work,
        describe=_describe,
    ),
)
