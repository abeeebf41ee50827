"""Classical models to ONNX.

The linear ones become products and functions of ONNX's default domain, in float64: ONNX-ML's own
`LinearRegressor` and `LinearClassifier` give float32, where Core ML gives doubles, and what they call
`PROBIT` is the inverse of what Core ML calls so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from coremlscope.errors import CorruptModelError
from coremlscope.ir import (
    Classical,
    DictType,
    DType,
    GLMClassifier,
    GLMRegressor,
    TensorType,
    Transform,
    Value,
)
from coremlscope.lower.program import copy_out, finish
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.emit import I64, Emitter, Lowering, NumpyType, Tensor, carry
from coremlscope.ops.program import OnnxProgram, Port
from coremlscope.ops.view import BoundGraph, CannotLower

__all__ = ["lower_classical"]

_F64 = np.dtype(np.float64)
#: Coefficients of `_normal_cdf`, the constant term first.
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


def lower_classical(content: Classical, bound: BoundFunction) -> OnnxProgram:
    """Lowers a classical model.

    Args:
        content: Its parameters.
        bound: The model seen as a function of one operation.

    Raises:
        CorruptModelError: The parameters do not fit the features.
    """
    emitter = Emitter()
    view = bound.graph.ops[0]
    emitter.owner = view.op.id
    inputs, scope = _inputs(bound.graph, emitter)
    op = Lowering(view, emitter, scope, {}, _refuse_block)
    match content:
        case GLMRegressor():
            outputs = [_regress(content, op, value) for value in view.op.outputs]
        case GLMClassifier():
            scores, probabilities = _classify(content, op)
            outputs = [
                _probabilities(content, op, value, probabilities)
                if isinstance(value.type, DictType)
                else _label(content, op, value, scores)
                for value in view.op.outputs
            ]
    return finish(emitter, inputs, outputs)


def _inputs(graph: BoundGraph, emitter: Emitter) -> tuple[list[Port], dict[str, Tensor]]:
    ports, scope = [], {}
    for value, given in zip(graph.graph.inputs, graph.inputs, strict=True):
        assert isinstance(given.type, TensorType)  # such are the features that a classical model is run with
        tensor = Tensor(emitter.unique(value.name), _carry(given.type.dtype))
        scope[value.name] = tensor
        ports.append(Port(value.name, tensor.name, given.type, tensor.dtype))
    return ports, scope


def _carry(dtype: DType) -> NumpyType:
    """Doubles and 64-bit integers stay what they are; all else is carried as in a program."""
    return dtype.numpy if dtype in (DType.FP64, DType.INT64) else carry(dtype)


def _refuse_block(
    block: BoundGraph, inputs: Sequence[Tensor], states: Mapping[str, Tensor], /
) -> tuple[list[Tensor], dict[str, Tensor]]:
    raise CannotLower("a classical model holds no nested graphs")


def _linear(content: Classical, op: Lowering) -> Tensor:
    """`weights · x + offsets`, `[1, rows]`, where x is all features in a row."""
    rows, width = op.view.static_shape("weights")
    sizes = [type_.elements for type_ in op.view.types("features")]
    known = sum(size or 0 for size in sizes)
    if known > width or (None not in sizes and known != width):
        raise CorruptModelError(f"the {content.kind} takes {width} numbers, but its inputs hold {known}")
    parts = [op.cast(op.reshape(tensor, (1, -1)), _F64) for tensor in op.all("features")]
    x = op.emit("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    weights = op.emitter.weight(content.weights, _F64, "weights")
    offsets = op.emitter.weight(content.offsets, _F64, "offsets")
    product = op.emit("Gemm", x, weights, transB=1)
    return op.emit("Add", product, op.reshape(offsets, (1, rows)))


def _transformed(transform: Transform, op: Lowering, scores: Tensor) -> Tensor:
    match transform:
        case "NoTransform":
            return scores
        case "Logit":
            return op.emit("Sigmoid", scores)
        case "Probit":
            return _normal_cdf(op, scores)


def _normal_cdf(op: Lowering, scores: Tensor) -> Tensor:
    """The standard normal distribution's share below each score, `[1, rows]`; the engine's erf is float32's.

    Beyond |s|, `exp(-s² / 2) · P(|s|) / Q(|s|)` lies on either side: Hart et al., Computer Approximations
    (1968), 5666. Its relative error is below 3e-9 up to 7, and 4e-6 where the share is below 1e-12.
    """
    far = op.const(_FARTHEST, _F64)
    x = op.reshape(op.emit("Min", op.emit("Abs", scores), far), (-1, 1))
    powers = op.emit("Pow", x, op.const([range(len(_HART_Q))], _F64))
    p, q = (op.emit("MatMul", powers, op.const(np.transpose([c]), _F64)) for c in (_HART_P, _HART_Q))
    density = op.emit("Exp", op.emit("Mul", op.emit("Mul", x, x), op.const(-0.5, _F64)))
    beyond = op.reshape(op.emit("Mul", density, op.emit("Div", p, q)), (1, -1))
    is_above = op.emit("Greater", scores, op.const(0.0, _F64), dtype=np.bool_)
    return op.emit("Where", is_above, op.emit("Sub", op.const(1.0, _F64), beyond), beyond, dtype=_F64)


def _regress(content: GLMRegressor, op: Lowering, value: Value) -> Port:
    result = _transformed(content.transform, op, _linear(content, op))
    rows = op.view.static_shape("weights")[0]
    assert isinstance(value.type, TensorType)
    shape = value.type.shape or (rows,)
    if math.prod(d or 0 for d in shape) != rows:
        raise CorruptModelError(
            f"the {content.kind} gives {rows} numbers, but its output holds {list(shape)}"
        )
    result = op.reshape(result, [d or 0 for d in shape])
    name = copy_out(op.emitter, result, value.name)
    return Port(value.name, name, TensorType(value.type.dtype, shape), _F64)


def _classify(content: GLMClassifier, op: Lowering) -> tuple[Tensor, Tensor]:
    """The score and the probability of each class, `[1, classes]`; the highest score is most probable."""
    scores = _linear(content, op)
    if len(content.labels) == 2:
        # Both transforms are symmetric: of -s they make one less what they make of s.
        scores = op.emit("Concat", op.emit("Neg", scores), scores, axis=1)
        return scores, _transformed(content.transform, op, scores)
    if content.encoding == "ReferenceClass":
        scores = op.emit("Concat", op.const([[0.0]], _F64), scores, axis=1)
        return scores, op.emit("Softmax", scores, axis=1)
    each = _transformed(content.transform, op, scores)
    total = op.emit("ReduceSum", each, op.const([1], I64), keepdims=1)
    return scores, op.emit("Div", each, total)


def _label(content: GLMClassifier, op: Lowering, value: Value, scores: Tensor) -> Port:
    index = op.emit("ArgMax", scores, dtype=I64, axis=1, keepdims=0)
    name = copy_out(op.emitter, index, value.name)
    return Port(value.name, name, TensorType(DType.INT64, (1,)), I64, content.labels)


def _probabilities(content: GLMClassifier, op: Lowering, value: Value, tensor: Tensor) -> Port:
    name = copy_out(op.emitter, tensor, value.name, is_flat=True)
    return Port(value.name, name, TensorType(DType.FP64, (len(content.labels),)), _F64, content.labels)
