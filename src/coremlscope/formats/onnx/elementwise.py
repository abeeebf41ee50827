"""Operators that work element by element, activations and normalisations."""

from __future__ import annotations

from functools import partial

import numpy as np

from coremlscope.formats.neuralnetwork.builder import Blob
from coremlscope.formats.onnx.schema import DTYPES
from coremlscope.formats.onnx.translation import Converted, Rows, Translation, plain_dtype
from coremlscope.model.ir import Array, Constant, DType, TensorType

_UNARY = {
    **{
        name: name.lower()
        for name in ("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Relu", "Round", "Sigmoid")
    },
    **{name: name.lower() for name in ("Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "Atan")},
    "Dropout": "identity",
    "Identity": "identity",
    "Not": "logical_not",
}
_BINARY = {
    "Add": "add",
    "And": "logical_and",
    "Div": "real_div",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Max": "maximum",
    "Min": "minimum",
    "Mod": "mod",
    "Mul": "mul",
    "Or": "logical_or",
    "Pow": "pow",
    "Sub": "sub",
    "Sum": "add",
    "Xor": "logical_xor",
}
_LOWEST, _HIGHEST = float(np.finfo(np.float16).min), float(np.finfo(np.float16).max)


def _unary(type_: str, t: Translation) -> Blob:
    return t.op(type_, x=t.x)


def _binary(type_: str, t: Translation) -> Blob:
    """Emits an operation of two values; more than two are combined one by one."""
    if type_ == "real_div" and _is_integer(t):
        type_ = "floor_div"
    result = t.operand(0)
    if len(t.inputs) == 1 or (isinstance(result, Constant) and isinstance(t.operand(1), Constant)):
        result = t.value(0)
    for index in range(1, len(t.inputs)):
        result = t.op(type_, x=result, y=_like(t.operand(index), result))
    assert isinstance(result, Blob)
    return result


def _is_integer(t: Translation) -> bool:
    return _dtype(t.operand(0)).is_int


def _dtype(operand: Blob | Constant) -> DType:
    if isinstance(operand, Blob):
        return operand.dtype
    assert isinstance(operand.type, TensorType)
    return operand.type.dtype


def _like(operand: Blob | Constant, other: Blob | Constant) -> Blob | Constant:
    """Returns a constant operand in the type of the other one."""
    dtype = _dtype(other)
    if isinstance(operand, Blob) or _dtype(operand) is dtype:
        return operand
    assert isinstance(operand.type, TensorType)
    return Constant(
        TensorType(dtype, operand.type.shape), Converted(operand, lambda array: array.astype(dtype.numpy))
    )


def _hard_sigmoid(t: Translation, x: Blob, alpha: float, beta: float) -> Blob:
    return t.op("sigmoid_hard", x=x, alpha=alpha, beta=beta)


def _gelu(t: Translation) -> Blob:
    mode = "TANH_APPROXIMATION" if t.text("approximate", "none") == "tanh" else "EXACT"
    return t.op("gelu", x=t.x, mode="TANH_APPROXIMATION" if t.node.op == "FastGelu" else mode)


def _clip(t: Translation) -> Blob:
    if t.opset < 11:
        low, high = t.number("min", _LOWEST), t.number("max", _HIGHEST)
    else:
        given = [t.array(index) for index in (1, 2)]
        low, high = (
            default if one is None else float(one.reshape(-1)[0])
            for one, default in zip(given, (_LOWEST, _HIGHEST), strict=True)
        )
    if low == 0.0 and high >= _HIGHEST:
        return t.op("relu", x=t.x)
    if (low, high) == (0.0, 6.0):
        return t.op("relu6", x=t.x)
    return t.op("clip", x=t.x, alpha=max(low, _LOWEST), beta=min(high, _HIGHEST))


def _prelu(t: Translation) -> Blob:
    slope, channels = t.weights(1), t.x.shape[1]
    assert isinstance(slope.type, TensorType)
    count = slope.type.elements

    def flat(array: Array) -> Array:
        return np.broadcast_to(array.reshape(-1), (channels,)) if count == 1 else array.reshape(-1)

    return t.op(
        "prelu", x=t.x, alpha=Constant(TensorType(slope.type.dtype, (channels,)), Converted(slope, flat))
    )


def _cast(t: Translation) -> Blob:
    dtype = DTYPES.get(t.integer("to", 1), DType.FP32)
    wanted = plain_dtype(dtype, t.floats)
    x = t.x
    return t.op("identity", x=x) if x.dtype is wanted else t.op("cast", x=x, dtype=wanted.value)


def _where(t: Translation) -> Blob:
    first, second = t.operand(1), t.operand(2)
    return t.op("select", cond=t.value(0), a=first, b=_like(second, first))


def _softmax(t: Translation) -> Blob:
    result = t.op("softmax", x=t.x, axis=t.integer("axis", -1 if t.opset >= 13 else 1))
    return t.op("log", x=result, epsilon=1e-45) if t.node.op == "LogSoftmax" else result


def _batch_norm(t: Translation) -> Blob:
    scale, bias, mean, variance = (t.weights(index) for index in range(1, 5))
    return t.op(
        "batch_norm",
        x=t.x,
        mean=mean,
        variance=variance,
        gamma=scale,
        beta=bias,
        epsilon=t.number("epsilon", 1e-5),
    )


def _instance_norm(t: Translation) -> Blob:
    return t.op(
        "instance_norm", x=t.x, gamma=t.weights(1), beta=t.weights(2), epsilon=t.number("epsilon", 1e-5)
    )


def _layer_norm(t: Translation) -> Blob:
    rank = t.x.rank
    axis = t.integer("axis", -1)
    return t.op(
        "layer_norm",
        x=t.x,
        axes=list(range(axis % rank, rank)),
        gamma=t.weights(1),
        beta=None if t.given(2) is None else t.weights(2),
        epsilon=t.number("epsilon", 1e-5),
    )


def _group_norm(t: Translation) -> Blob:
    shape, groups = t.x.shape, t.integer("num_groups", 1)
    parted = t.op("reshape", x=t.x, shape=[shape[0], groups, -1])
    normal = t.op("layer_norm", x=parted, axes=[2], epsilon=t.number("epsilon", 1e-5))
    whole = t.op("reshape", x=normal, shape=list(shape))
    channels = [1, shape[1], *(1 for _ in shape[2:])]
    for index, type_ in ((1, "mul"), (2, "add")):
        factor = t.op("reshape", x=t.operand(index), shape=channels)
        whole = t.op(type_, x=whole, y=factor)
    return whole


def _rms_norm(t: Translation) -> Blob:
    mean = t.op("reduce_mean", x=t.op("square", x=t.x), axes=[-1], keep_dims=True)
    root = t.op("rsqrt", x=mean, epsilon=t.number("epsilon", 1e-5))
    return t.op("mul", x=t.op("mul", x=t.x, y=root), y=t.operand(1))


def _quick_gelu(t: Translation) -> Blob:
    scaled = t.op("mul", x=t.x, y=t.number("alpha", 1.702 if t.node.op == "QuickGelu" else 1.0))
    return t.op("mul", x=t.x, y=t.op("sigmoid", x=scaled))


ROWS: Rows = {
    **{op: partial(_unary, type_) for op, type_ in _UNARY.items()},
    **{op: partial(_binary, type_) for op, type_ in _BINARY.items()},
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "CastLike": lambda t: t.op("cast", x=t.x, dtype=_dtype(t.operand(1)).value),
    "Clip": _clip,
    "Elu": lambda t: t.op("elu", x=t.x, alpha=t.number("alpha", 1.0)),
    "FastGelu": _gelu,
    "Gelu": _gelu,
    "GroupNormalization": _group_norm,
    "HardSigmoid": lambda t: _hard_sigmoid(t, t.x, t.number("alpha", 0.2), t.number("beta", 0.5)),
    "HardSwish": lambda t: t.op("mul", x=t.x, y=_hard_sigmoid(t, t.x, 1 / 6, 0.5)),
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda t: t.op("leaky_relu", x=t.x, alpha=t.number("alpha", 0.01)),
    "Log": lambda t: t.op("log", x=t.x, epsilon=0.0),
    "LogSoftmax": _softmax,
    "Mish": lambda t: t.op("mul", x=t.x, y=t.op("tanh", x=t.op("softplus", x=t.x))),
    "Neg": lambda t: t.op("mul", x=t.x, y=-1 if t.x.dtype.is_int else -1.0),
    "PRelu": _prelu,
    "QuickGelu": _quick_gelu,
    "RMSNormalization": _rms_norm,
    "Reciprocal": lambda t: t.op("inverse", x=t.x, epsilon=0.0),
    "SimplifiedLayerNormalization": _rms_norm,
    "Softmax": _softmax,
    "Swish": _quick_gelu,
    "Where": _where,
}
