"""Convolutions, products of matrices, windows, reductions and resizing."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.formats.onnx.translation import Converted, Rows, Translation
from coremlscope.model.ir import Constant, TensorType

_REDUCTIONS = {
    "ReduceL1": "reduce_l1_norm",
    "ReduceL2": "reduce_l2_norm",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceMax": "reduce_max",
    "ReduceMean": "reduce_mean",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceSum": "reduce_sum",
    "ReduceSumSquare": "reduce_sum_square",
}
_ACTIVATIONS = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}


def _window(t: Translation, rank: int) -> dict[str, Any]:
    """Returns strides, dilations and padding over some axes."""
    auto = t.text("auto_pad", "NOTSET")
    pads = t.integers(99, "pads") or [0] * (2 * rank)
    interleaved = [size for axis in range(rank) for size in (pads[axis], pads[axis + rank])]
    kinds = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}
    kind = kinds.get(auto, "custom" if any(pads) else "valid")
    padding: dict[str, Any] = {"pad_type": kind}
    if kind == "custom":
        padding["pad"] = interleaved
    return {"strides": t.integers(99, "strides") or [1] * rank, **padding}


def _conv(t: Translation) -> Blob:
    rank = len(t.shape(1)) - 2
    result = t.op(
        "conv",
        x=t.x,
        weight=t.operand(1),
        bias=None if t.given(2) is None else t.weights(2),
        groups=t.integer("group", 1),
        dilations=t.integers(99, "dilations") or [1] * rank,
        **_window(t, rank),
    )
    if t.node.op != "FusedConv":
        return result
    if t.given(3) is not None:
        result = t.op("add", x=result, y=t.operand(3))
    name = t.text("activation", "Relu")
    if name not in _ACTIVATIONS:
        return t.op("leaky_relu", x=result, alpha=0.1)
    return t.op(_ACTIVATIONS[name], x=result)


def _deconv(t: Translation) -> Blob:
    rank = len(t.shape(1)) - 2
    given = t.types[0]
    shape = None if given is None or not given.is_static else list(given.shape or ())
    window = _window(t, rank)
    if any(t.integers(99, "output_padding") or ()) and shape is None:
        raise CannotTranslate("output_padding needs a known shape of its result")
    return t.op(
        "conv_transpose",
        x=t.x,
        weight=t.operand(1),
        bias=None if t.given(2) is None else t.weights(2),
        groups=t.integer("group", 1),
        dilations=t.integers(99, "dilations") or [1] * rank,
        output_shape=[int(size or 0) for size in shape] if shape else None,
        **window,
    )


def _pool(type_: str, t: Translation) -> Blob:
    kernel = t.integers(99, "kernel_shape") or []
    extra: dict[str, Any] = {}
    if type_ == "avg_pool":
        extra["exclude_padding_from_average"] = not t.integer("count_include_pad", 0)
    if t.integer("ceil_mode", 0):
        extra["ceil_mode"] = True
    return t.op(type_, x=t.x, kernel_sizes=kernel, **_window(t, len(kernel)), **extra)


def _global_pool(type_: str, t: Translation) -> Blob:
    return t.op(type_, x=t.x, axes=list(range(2, t.x.rank)), keep_dims=True)


def _transposed(given: Constant) -> Constant:
    """Returns a matrix with its rows as columns."""
    assert isinstance(given.type, TensorType)
    shape = given.type.shape or ()
    data = Converted(given, lambda array: np.ascontiguousarray(array.T))
    return Constant(TensorType(given.type.dtype, shape[::-1]), data)


def _gemm(t: Translation) -> Blob:
    b, c = t.operand(1), t.given(2)
    flips = bool(t.integer("transA", 0)), bool(t.integer("transB", 0))
    alpha, beta = t.number("alpha", 1.0), t.number("beta", 1.0)
    bias = isinstance(c, Constant) and len(t.shape(2)) == 1 and t.shape(2) != (1,) and beta == 1
    if isinstance(b, Constant) and not flips[0] and alpha == 1:
        weight = b if flips[1] else _transposed(b)
        result = t.op("linear", x=t.x, weight=weight, bias=c if bias else None)
    else:
        result = t.op("matmul", x=t.x, y=b, transpose_x=flips[0], transpose_y=flips[1])
        result = result if alpha == 1 else t.op("mul", x=result, y=alpha)
        bias = False
    if c is None or bias:
        return result
    return t.op("add", x=result, y=c if beta == 1 else t.op("mul", x=c, y=beta))


def _matmul(t: Translation) -> Blob:
    x, y = t.x, t.operand(1)
    if isinstance(y, Constant) and len(t.shape(1)) == 2 and x.rank > 1:
        return t.op("linear", x=x, weight=_transposed(y))
    if x.rank > 1 and len(t.shape(1)) > 1:
        return t.op("matmul", x=x, y=y)
    first = x if x.rank > 1 else t.op("expand_dims", x=x, axes=[0])
    second = y if len(t.shape(1)) > 1 else t.op("expand_dims", x=y, axes=[1])
    result = t.op("matmul", x=first, y=second)
    axes = [axis for axis, is_vector in ((-2, x.rank == 1), (-1, len(t.shape(1)) == 1)) if is_vector]
    return t.op("squeeze", x=result, axes=axes)


def _reduce(type_: str, t: Translation) -> Blob:
    axes = t.integers(1, "axes")
    keeps = bool(t.integer("keepdims", 1))
    if not axes and t.integer("noop_with_empty_axes", 0):
        return t.op("identity", x=t.x)
    return t.op(type_, x=t.x, axes=axes or list(range(t.x.rank)), keep_dims=keeps)


def _arg(type_: str, t: Translation) -> Blob:
    return t.op(type_, x=t.x, axis=t.integer("axis", 0), keep_dims=bool(t.integer("keepdims", 1)))


def _resize(t: Translation) -> Blob:
    place = 1 if t.node.op == "Upsample" else 2
    shape, sizes = t.x.shape, t.integers(3) if t.node.op == "Resize" else None
    if len(shape) != 4:
        raise CannotTranslate("it does not resize images")
    if sizes is None:
        listed = t.node.attributes.get("scales") or t.array(place)
        if listed is None:
            raise CannotTranslate("its scales are missing")
        scales = [float(one) for one in np.asarray(listed).reshape(-1)][-2:]
        wanted = [math.floor(size * scale) for size, scale in zip(shape[-2:], scales, strict=True)]
    else:
        wanted = sizes[-2:]
    if t.text("mode", "nearest") == "nearest":
        factors = [new / old for new, old in zip(wanted, shape[-2:], strict=True)]
        return t.op(
            "upsample_nearest_neighbor", x=t.x, scale_factor_height=factors[0], scale_factor_width=factors[1]
        )
    corners = t.text("coordinate_transformation_mode", "half_pixel") == "align_corners"
    return t.op(
        "resize_bilinear",
        x=t.x,
        target_size_height=wanted[0],
        target_size_width=wanted[1],
        sampling_mode="STRICT_ALIGN_CORNERS" if corners else "UNALIGN_CORNERS",
    )


def _grid_sample(t: Translation) -> Blob:
    padding = {"zeros": "constant", "border": "border", "reflection": "reflection"}
    mode = t.text("mode", "linear")
    return t.op(
        "resample",
        x=t.x,
        coordinates=t.operand(1),
        sampling_mode="nearest" if mode == "nearest" else "bilinear",
        padding_mode=padding.get(t.text("padding_mode", "zeros"), "constant"),
        padding_value=0.0,
        coordinates_mode="normalized_minus_one_to_one",
        align_corners=bool(t.integer("align_corners", 0)),
    )


def _lrn(t: Translation) -> Blob:
    return t.op(
        "local_response_norm",
        x=t.x,
        size=t.integer("size", 5),
        alpha=t.number("alpha", 1e-4),
        beta=t.number("beta", 0.75),
        k=t.number("bias", 1.0),
    )


ROWS: Rows = {
    **{op: partial(_reduce, type_) for op, type_ in _REDUCTIONS.items()},
    "ArgMax": partial(_arg, "reduce_argmax"),
    "ArgMin": partial(_arg, "reduce_argmin"),
    "AveragePool": partial(_pool, "avg_pool"),
    "Conv": _conv,
    "ConvTranspose": _deconv,
    "Einsum": lambda t: t.op(
        "einsum", values=[t.value(0), t.value(1)], equation=t.text("equation", "").replace(" ", "")
    ),
    "FusedConv": _conv,
    "Gemm": _gemm,
    "GlobalAveragePool": partial(_global_pool, "reduce_mean"),
    "GlobalMaxPool": partial(_global_pool, "reduce_max"),
    "GridSample": _grid_sample,
    "LRN": _lrn,
    "MatMul": _matmul,
    "MaxPool": partial(_pool, "max_pool"),
    "Resize": _resize,
    "Upsample": _resize,
}
