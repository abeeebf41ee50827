"""Generalised linear models to ONNX.

Products and functions of ONNX's default domain, in float64: ONNX-ML's own `LinearRegressor` and
`LinearClassifier` give float32, where Core ML gives doubles, and what they call `PROBIT` is the inverse of
what Core ML calls so.
"""

from __future__ import annotations

import numpy as np

from coremlscope.ir import Constant, GLMClassifier, GLMRegressor, Transform
from coremlscope.lower.classical.interface import F64, Interface
from coremlscope.ops.emit import I64, Lowering, Tensor

__all__ = ["lower_glm_classifier", "lower_glm_regressor", "normal_cdf"]

#: Coefficients of `normal_cdf`, the constant term first.
_HART_P = (
    220.206867912376, 221.213596169931, 112.079291497871, 33.912866078383, 6.37396220353165,
    0.700383064443688, 3.52624965998911e-2, 0.0,
)  # fmt: skip
_HART_Q = (
    440.413735824752, 793.826512519948, 637.333633378831, 296.564248779674, 86.7807322029461,
    16.064177579207, 1.75566716318264, 8.83883476483184e-2,
)  # fmt: skip
#: Beyond it, nothing is left in float64.
_FARTHEST = 40.0


def lower_glm_regressor(content: GLMRegressor, interface: Interface) -> None:
    """Lowers a `GLMRegressor`."""
    scores = _linear(content.weights, content.offsets, interface)
    result = _transformed(content.transform, interface.op, scores)
    if len(interface.outputs) != 1:
        interface.contradict()
    interface.give(interface.outputs[0], result, len(content.offsets.numpy()))


def lower_glm_classifier(content: GLMClassifier, interface: Interface) -> None:
    """Lowers a `GLMClassifier`; the highest score is most probable."""
    scores, probabilities = _classify(content, interface)
    place = interface.op.emit("ArgMax", scores, dtype=I64, axis=1, keepdims=0)
    interface.give_classes(place, probabilities, content.labels)


def _linear(weights: Constant, offsets: Constant, interface: Interface) -> Tensor:
    """`weights · x + offsets`, `[1, rows]`, where x is all features in a row."""
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


def normal_cdf(op: Lowering, scores: Tensor) -> Tensor:
    """The standard normal distribution's share below each score, `[1, rows]`; the engine's erf is float32's.

    Beyond |s|, `exp(-s² / 2) · P(|s|) / Q(|s|)` lies on either side: Hart et al., Computer Approximations
    (1968), 5666. Its relative error is below 3e-9 up to 7, and 4e-6 where the share is below 1e-12.
    """
    far = op.const(_FARTHEST, F64)
    x = op.reshape(op.emit("Min", op.emit("Abs", scores), far), (-1, 1))
    powers = op.emit("Pow", x, op.const([range(len(_HART_Q))], F64))
    p, q = (op.emit("MatMul", powers, op.const(np.transpose([c]), F64)) for c in (_HART_P, _HART_Q))
    density = op.emit("Exp", op.emit("Mul", op.emit("Mul", x, x), op.const(-0.5, F64)))
    beyond = op.reshape(op.emit("Mul", density, op.emit("Div", p, q)), (1, -1))
    is_above = op.emit("Greater", scores, op.const(0.0, F64), dtype=np.bool_)
    return op.emit("Where", is_above, op.emit("Sub", op.const(1.0, F64), beyond), beyond, dtype=F64)


def _classify(content: GLMClassifier, interface: Interface) -> tuple[Tensor, Tensor]:
    """The score and the probability of each class, `[1, classes]`; the highest score is most probable."""
    op = interface.op
    scores = _linear(content.weights, content.offsets, interface)
    if len(content.labels) == 2:
        # Both transforms are symmetric: of -s they make one less what they make of s.
        scores = op.emit("Concat", op.emit("Neg", scores), scores, axis=1)
        return scores, _transformed(content.transform, op, scores)
    if content.encoding == "ReferenceClass":
        scores = op.emit("Concat", op.const([[0.0]], F64), scores, axis=1)
        return scores, op.emit("Softmax", scores, axis=1)
    each = _transformed(content.transform, op, scores)
    total = op.emit("ReduceSum", each, op.const([1], I64), keepdims=1)
    return scores, op.emit("Div", each, total)
