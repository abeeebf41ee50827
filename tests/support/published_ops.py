"""The operations of the published plans on M4 (macOS 27), by their authors' model names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from coremlscope.model.ir import DType
from coremlscope.planning.patterns.rule import (
    Example,
    Result,
    boolean,
    fp16,
    fp32,
    int32,
    tensor,
    weight,
)

__all__ = ["MODELS"]

_X = fp16(1, 64, 32, 32)


def _one(type_: str, x: object = _X, **arguments: object) -> tuple[Example, ...]:
    return (Example(type_, {"x": x, **arguments}),)


def _two(type_: str, x: object = _X, y: object = _X) -> tuple[Example, ...]:
    return (Example(type_, {"x": x, "y": y}),)


def _conv(*kernel: int, groups: int = 1, **arguments: object) -> tuple[Example, ...]:
    shape = (64, 64 // groups, *kernel)
    return _one("conv", weight=weight(*shape), groups=groups, **{"pad_type": "same", **arguments})


def _pool(type_: str, *kernel: int, **arguments: object) -> tuple[Example, ...]:
    strides = [1] * len(kernel)
    return _one(type_, kernel_sizes=list(kernel), strides=strides, **{"pad_type": "same", **arguments})


def _reduce(type_: str, axis: int) -> tuple[Example, ...]:
    return _one(type_, axes=[axis], keep_dims=True)


def _matmul(x: object, y: object) -> tuple[Example, ...]:
    return _two("matmul", x, y)


def _lookup(table: object) -> tuple[Example, ...]:
    """A gather by variable indices, with coremltools' handling of negative ones."""
    narrow = {"x": Result(0), "dtype": "int32"}
    return (
        Example("cast", {"x": int32(1, 64), "dtype": "int16"}),
        Example("cast", narrow),
        Example("greater_equal", {"x": Result(1), "y": 0}),
        Example("add", {"x": Result(1), "y": 1000}),
        Example("select", {"cond": Result(2), "a": Result(1), "b": Result(3)}),
        Example("cast", {"x": Result(4), "dtype": "int16"}),
        Example("gather", {"x": table, "indices": Result(5), "axis": 0}),
    )


_RECURRENT = {"x": fp16(16, 1, 64)}
_SCATTER = {"data": _X, "indices": [0, 3], "updates": fp16(1, 2, 32, 32), "axis": 1}
_QUANTIZED = (
    Example(
        "quantize",
        {"input": _X, "scale": np.float16(0.1), "output_dtype": "int8"},
        outputs=(tensor(DType.INT8, 1, 64, 32, 32),),
    ),
    Example("dequantize", {"input": Result(0), "scale": np.float16(0.1)}, outputs=(_X,)),
)
_ATTENTION = dict.fromkeys(("query", "key", "value"), fp16(1, 8, 128, 64))
_TWICE = {"scale_factor_height": 2.0, "scale_factor_width": 2.0}

#: The operations by model name.
MODELS: Mapping[str, tuple[Example, ...]] = {
    **{
        name: _one(name)
        for name in (
            *("abs", "erf", "floor", "relu", "round", "sign", "sin", "softsign", "sqrt", "asin", "sinh"),
        )
    },
    "gelu_exact": _one("gelu", mode="EXACT"),
    "gelu_tanh": _one("gelu", mode="TANH_APPROXIMATION"),
    "inverse": _one("inverse", epsilon=1e-4),
    "rsqrt": _one("rsqrt", epsilon=1e-4),
    "leaky_relu": _one("leaky_relu", alpha=0.1),
    "linear_act": _one("linear_activation", alpha=2.0, beta=1.0),
    "prelu": _one("prelu", alpha=weight(64)),
    "add_bc_batch": _two("add", fp16(4, 64, 32, 32), fp16(1, 64, 32, 32)),
    **{name: _two(name) for name in ("sub", "real_div", "maximum", "greater", "less_equal", "mod")},
    "select": (Example("select", {"cond": boolean(1, 64, 32, 32), "a": _X, "b": _X}),),
    "add_f32": _two("add", fp32(1, 64, 32, 32), fp32(1, 64, 32, 32)),
    "relu_f32": _one("relu", fp32(1, 64, 32, 32)),
    "matmul_f32": _matmul(fp32(1, 128, 256), fp32(1, 256, 128)),
    "mul_i32": _two("mul", int32(1, 64, 32, 32), int32(1, 64, 32, 32)),
    "avg_pool3d": (
        Example(
            "avg_pool",
            {
                "x": fp16(1, 16, 8, 16, 16),
                "kernel_sizes": [2, 2, 2],
                "strides": [2, 2, 2],
                "pad_type": "valid",
            },
        ),
    ),
    "batch_to_space": (
        Example("batch_to_space", {"x": fp16(4, 64, 8, 8), "block_shape": [2, 2], "crops": [[0, 0], [0, 0]]}),
    ),
    "cast_f16_f32": _one("cast", dtype="fp32"),
    "cast_f16_i8": (
        Example("cast", {"x": _X, "dtype": "int8"}),
        Example("cast", {"x": Result(0), "dtype": "int32"}),
    ),
    "concat_n": (Example("concat", {"values": (_X, _X), "axis": 0, "interleave": False}),),
    "concat_w": (Example("concat", {"values": (_X, _X), "axis": 3, "interleave": False}),),
    "conv1d": _one("conv", fp16(1, 64, 1024), weight=weight(64, 64, 3), pad_type="same"),
    "conv1x1": _conv(1, 1),
    "conv3d": _one("conv", fp16(1, 16, 8, 16, 16), weight=weight(16, 16, 3, 3, 3), pad_type="same"),
    "conv3x3": _conv(3, 3),
    "conv3x3_d2": _conv(3, 3, dilations=[2, 2]),
    "conv_s5": _conv(5, 5, strides=[5, 5]),
    "conv_transpose": _one("conv_transpose", weight=weight(64, 64, 2, 2), strides=[2, 2]),
    "conv_transpose_k3s2": _one("conv_transpose", weight=weight(64, 64, 3, 3), strides=[2, 2]),
    **{f"conv_{k}x1": _conv(k, 1) for k in (16, 24, 28, 31)},
    **{f"conv_1x{k}": _conv(1, k) for k in (9, 11, 13, 15, 24, 32, 64)},
    "conv_k1x31": _conv(1, 31),
    "conv_k17": _conv(17, 17),
    "conv_15x15_valid": _conv(15, 15, pad_type="valid"),
    **{f"conv_groups_{g}": _conv(3, 3, groups=g) for g in (2, 4, 8, 16, 32)},
    **{f"conv_stride_{s}": _conv(3, 3, strides=[s, s]) for s in (2, 3, 4, 6, 8)},
    "gather_w": _one("gather", indices=[0, 3, 5], axis=3),
    "gather_nd": (
        Example("cast", {"x": int32(4, 1), "dtype": "int16"}),
        Example("cast", {"x": Result(0), "dtype": "int32"}),
        Example("greater_equal", {"x": Result(1), "y": 0}),
        Example("add", {"x": Result(1), "y": 64}),
        Example("select", {"cond": Result(2), "a": Result(1), "b": Result(3)}),
        Example("cast", {"x": Result(4), "dtype": "int16"}),
        Example("gather_nd", {"x": fp16(64, 256), "indices": Result(5), "batch_dims": 0}),
    ),
    "gather_dyn": _lookup(fp16(1000, 256)),
    "embedding": _lookup(weight(1000, 256)),
    "layer_norm_hw": _one("layer_norm", axes=[2, 3], epsilon=1e-5),
    "layer_norm_w": _one("layer_norm", axes=[3], epsilon=1e-5),
    "matmul_dyn": _matmul(fp16(1, 128, 256), fp16(1, 256, 128)),
    "matmul_batched4d": _matmul(fp16(1, 8, 128, 64), fp16(1, 8, 64, 128)),
    "matmul_bc": _matmul(fp16(4, 128, 64), fp16(1, 64, 128)),
    "matmul_K65535": _matmul(fp16(1, 16, 65535), fp16(1, 65535, 16)),
    "matmul_K65536": _matmul(fp16(1, 16, 65536), fp16(1, 65536, 16)),
    "max_pool": _one("max_pool", kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid"),
    **{f"maxpool_{k}": _pool("max_pool", k, k) for k in (4, 5, 7)},
    "maxpool_9x1": _pool("max_pool", 9, 1),
    "maxpool_1x9": _pool("max_pool", 1, 9),
    "maxpool_9x9": _pool("max_pool", 9, 9),
    "maxpool_9x9_valid": _pool("max_pool", 9, 9, pad_type="valid"),
    "pad_const": _one("pad", pad=[1, 1, 1, 1], mode="constant", constant_val=0.0),
    "pad_reflect": _one("pad", pad=[1, 1, 1, 1], mode="reflect"),
    "pixel_shuffle": _one("pixel_shuffle", upscale_factor=2),
    "q_dq_i8": _QUANTIZED,
    "reduce_min_c": _reduce("reduce_min", 1),
    "reduce_l1_c": _reduce("reduce_l1_norm", 1),
    "reduce_log_sum_c": _reduce("reduce_log_sum", 1),
    "reduce_log_sum_exp_c": _reduce("reduce_log_sum_exp", 1),
    "reduce_sum_w": _reduce("reduce_sum", 3),
    "reduce_argmax_c": (
        Example("reduce_argmax", {"x": _X, "axis": 1, "keep_dims": True}),
        Example("cast", {"x": Result(0), "dtype": "fp16"}),
    ),
    "relu_r1": _one("relu", fp16(64)),
    "relu_r2": _one("relu", fp16(64, 64)),
    "relu_r3": _one("relu", fp16(64, 32, 32)),
    "relu_n64": _one("relu", fp16(64, 64, 32, 32)),
    "relu_c16384": _one("relu", fp16(1, 16384, 1, 1)),
    "relu_c16385": _one("relu", fp16(1, 16385, 1, 1)),
    **{f"relu_h{n}": _one("relu", fp16(1, 1, n, 1)) for n in (65536, 65537)},
    **{f"relu_w{n}": _one("relu", fp16(1, 1, 1, n)) for n in (65536, 65537)},
    "resample": (
        Example("resample", {"x": _X, "coordinates": fp16(1, 16, 16, 2)}, outputs=(fp16(1, 64, 16, 16),)),
    ),
    "reshape": _one("reshape", shape=[1, 64, 1024]),
    "reshape_split_c": _one("reshape", shape=[1, 8, 8, 32, 32]),
    "reverse_w": _one("reverse", axes=[3]),
    "sdpa": (Example("scaled_dot_product_attention", _ATTENTION),),
    "slice_c": _one("slice_by_index", begin=[0, 0, 0, 0], end=[1, 32, 32, 32]),
    "slice_w_stride2": _one("slice_by_index", begin=[0] * 4, end=[1, 64, 32, 32], stride=[1, 1, 1, 2]),
    "softmax_c": _one("softmax", axis=1),
    "softmax_h": _one("softmax", axis=2),
    "space_to_depth": _one("space_to_depth", block_size=2),
    "squeeze_expand": (
        Example("squeeze", {"x": _X, "axes": [0]}),
        Example("expand_dims", {"x": Result(0), "axes": [0]}),
    ),
    "stack": (Example("stack", {"values": (fp16(64, 32, 32), fp16(64, 32, 32)), "axis": 0}),),
    "tile": _one("tile", reps=[1, 2, 1, 1]),
    "topk_c": _one("topk", k=5, axis=1),
    "transpose_hw": _one("transpose", perm=[0, 1, 3, 2]),
    "upsample_bilinear_ac": _one("upsample_bilinear", align_corners=True, **_TWICE),
    "upsample_nearest_x3": _one("upsample_nearest_neighbor", scale_factor_height=3.0, scale_factor_width=3.0),
    "crop_resize": (Example("crop_resize", {"x": _X, "boxes": fp16(4, 4)}, outputs=(fp16(4, 64, 8, 8),)),),
    "cumsum_c": _one("cumsum", axis=1),
    "gru": (Example("gru", _RECURRENT, outputs=(fp16(16, 1, 64), fp16(1, 64))),),
    "rnn": (Example("rnn", _RECURRENT, outputs=(fp16(16, 1, 64), fp16(1, 64))),),
    "one_hot": (
        Example("one_hot", {"indices": int32(64), "one_hot_vector_size": 10}, outputs=(fp16(64, 10),)),
    ),
    "random_normal": (
        Example("random_normal", {"shape": [1, 64, 32, 32]}, outputs=(_X,)),
        Example("add", {"x": Result(0), "y": _X}),
    ),
    "scatter": (Example("scatter", _SCATTER, outputs=(_X,)),),
}
