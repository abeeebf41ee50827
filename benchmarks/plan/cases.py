"""The operations of the published plans of an M4, rebuilt with coremltools' MIL builder.

Shapes and parameters follow the models of 751K/Apple-Neural-Engine-Microarchitecture-Study-M6: float16, iOS
18's operation set, one operation a model, mostly on 1×64×32×32. In context the operation lies between two
convolutions (for rank 3: two `linear`) with `relu` on each side.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import Function, Program, types

from coremlscope.formats import container
from coremlscope.model.ir import Model

__all__ = ["CASES", "Case", "build"]

F16 = np.float16
#: Cache of converted models.
_KEPT = Path(__file__).parents[2] / "out" / "plan"
_MAP = (1, 64, 32, 32)
_ROWS = (1, 128, 256)
_HEADS = (1, 8, 128, 64)
_RNG = np.random.default_rng(0)
#: Maps with more channels are wrapped in depthwise convolutions; longer rows are not wrapped.
_MOST_CHANNELS, _LONGEST_ROW = 512, 2048


@dataclass(frozen=True)
class Case:
    """A model of one operation.

    Attributes:
        inputs: Shapes of the inputs.
        dtypes: Their types: `fp16`, `fp32`, `int32`.
        build: Builds the operation from the inputs.
    """

    inputs: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    build: Callable[..., Any]


def _case(build: Callable[..., Any], *inputs: tuple[int, ...], dtypes: Sequence[str] | str = "fp16") -> Case:
    shapes = inputs or (_MAP,)
    return Case(shapes, (dtypes,) * len(shapes) if isinstance(dtypes, str) else tuple(dtypes), build)


def _weight(*shape: int) -> Any:
    return mb.const(val=(_RNG.standard_normal(shape) * 0.05).astype(F16))


def _unary(name: str, **parameters: Any) -> Case:
    return _case(lambda x: getattr(mb, name)(x=x, **parameters))


def _binary(name: str, *inputs: tuple[int, ...], dtypes: str = "fp16") -> Case:
    shapes = inputs or (_MAP, _MAP)
    return _case(lambda x, y: getattr(mb, name)(x=x, y=y), *shapes, dtypes=dtypes)


def _compare(name: str) -> Case:
    return _case(lambda x, y: mb.cast(x=getattr(mb, name)(x=x, y=y), dtype="fp16"), _MAP, _MAP)


def _relu(*shape: int, dtypes: str = "fp16") -> Case:
    return _case(lambda x: mb.relu(x=x), shape, dtypes=dtypes)


def _conv(*kernel: int, channels: int = 64, groups: int = 1, shape: Any = _MAP, **parameters: Any) -> Case:
    return _case(
        lambda x: mb.conv(
            x=x, weight=_weight(channels, channels // groups, *kernel), groups=groups, **parameters
        ),
        shape,
    )


def _up(channels: int, *kernel: int, shape: Any = _MAP, **parameters: Any) -> Case:
    return _case(
        lambda x: mb.conv_transpose(x=x, weight=_weight(channels, channels, *kernel), **parameters), shape
    )


def _pool(name: str, kernel: Sequence[int], strides: Sequence[int], pad_type: str, shape: Any = _MAP) -> Case:
    return _case(
        lambda x: getattr(mb, name)(x=x, kernel_sizes=kernel, strides=strides, pad_type=pad_type), shape
    )


def _reduce(name: str, axis: int) -> Case:
    return _case(lambda x: getattr(mb, name)(x=x, axes=[axis], keep_dims=True))


def _join(axis: int) -> Case:
    return _case(lambda x, y: mb.concat(values=(x, y), axis=axis), _MAP, _MAP)


def _recurrent(name: str, gates: int) -> Case:
    def build(x: Any) -> Any:
        state = {"initial_h": np.zeros((1, 64), F16)}
        if name == "lstm":
            state["initial_c"] = np.zeros((1, 64), F16)
        layer = getattr(mb, name)
        weights = {"weight_ih": _weight(gates * 64, 64), "weight_hh": _weight(gates * 64, 64)}
        return layer(x=x, output_sequence=True, **state, **weights)[0]

    return _case(build, (16, 1, 64))


def _crop_resize(x: Any) -> Any:
    return mb.crop_resize(
        x=x,
        boxes=np.array([[0, 0, 16, 16]] * 4, F16),
        box_indices=np.zeros(4, np.int32),
        target_height=8,
        target_width=8,
        box_coordinate_mode="CORNERS_HEIGHT_FIRST",
        normalized_coordinates=False,
    )


def _resample(x: Any, grid: Any) -> Any:
    return mb.resample(
        x=x,
        coordinates=grid,
        sampling_mode="bilinear",
        padding_mode="constant",
        padding_value=F16(0),
        coordinates_mode="normalized_minus_one_to_one",
        align_corners=True,
    )


def _round_trip(x: Any) -> Any:
    scale = F16(0.1)
    return mb.dequantize(input=mb.quantize(input=x, scale=scale, output_dtype="int8"), scale=scale)


def _noise(x: Any) -> Any:
    noise = mb.random_normal(shape=np.array(_MAP, np.int32))
    return mb.add(x=x, y=mb.cast(x=noise, dtype="fp16"))


def _elementwise() -> dict[str, Case]:
    plain = (
        "abs",
        "erf",
        "floor",
        "round",
        "sign",
        "sin",
        "asin",
        "sinh",
        "softsign",
        "sqrt",
        "rsqrt",
        "inverse",
    )
    cases = {name: _unary(name) for name in plain}
    cases |= {name: _binary(name) for name in ("add", "sub", "real_div", "maximum", "mod")}
    cases |= {name: _compare(name) for name in ("greater", "less_equal")}
    return cases | {
        "gelu_exact": _unary("gelu", mode="EXACT"),
        "gelu_tanh": _unary("gelu", mode="TANH_APPROXIMATION"),
        "leaky_relu": _unary("leaky_relu", alpha=0.1),
        "linear_act": _unary("linear_activation", alpha=2.0, beta=1.0),
        "prelu": _unary("prelu", alpha=np.full(64, 0.1, F16)),
        "add_bc_batch": _binary("add", (4, 64, 32, 32), _MAP),
        "select": _case(
            lambda m, x, y: mb.select(cond=mb.greater(x=m, y=F16(0)), a=x, b=y), _MAP, _MAP, _MAP
        ),
        "add_f32": _binary("add", _MAP, _MAP, dtypes="fp32"),
        "mul_i32": _binary("mul", _MAP, _MAP, dtypes="int32"),
        "cast_f16_f32": _unary("cast", dtype="fp32"),
        "cast_f16_i8": _unary("cast", dtype="int8"),
        "q_dq_i8": _case(_round_trip),
    }


def _sizes() -> dict[str, Case]:
    return {
        "relu": _relu(*_MAP),
        "relu_f32": _relu(*_MAP, dtypes="fp32"),
        "relu_r1": _relu(65536),
        "relu_r2": _relu(256, 256),
        "relu_r3": _relu(*_ROWS),
        "relu_n64": _relu(64, 64, 8, 8),
        "relu_c16384": _relu(1, 16384, 1, 1),
        "relu_c16385": _relu(1, 16385, 1, 1),
        "relu_h65536": _relu(1, 1, 65536, 1),
        "relu_h65537": _relu(1, 1, 65537, 1),
        "relu_w65536": _relu(1, 1, 1, 65536),
        "relu_w65537": _relu(1, 1, 1, 65537),
    }


def _windows() -> dict[str, Case]:
    return {
        "conv1x1": _conv(1, 1),
        "conv3x3": _conv(3, 3, pad_type="same"),
        "conv3x3_d2": _conv(3, 3, pad_type="same", dilations=[2, 2]),
        "conv_k17": _conv(17, 17, pad_type="same"),
        "conv_k1x31": _conv(1, 31, pad_type="same"),
        "conv_s5": _conv(5, 5, strides=[5, 5]),
        "conv1d": _conv(3, pad_type="same", shape=(1, 64, 1024)),
        "conv3d": _conv(3, 3, 3, channels=16, pad_type="same", shape=(1, 16, 8, 16, 16)),
        "conv_transpose": _up(64, 2, 2, strides=[2, 2]),
        "conv_transpose_k3s2": _up(64, 3, 3, strides=[2, 2], pad_type="same"),
        "max_pool": _pool("max_pool", [3, 3], [1, 1], "same"),
        "avg_pool3d": _pool("avg_pool", [2, 2, 2], [2, 2, 2], "valid", (1, 16, 8, 16, 16)),
        "upsample_bilinear_ac": _unary(
            "upsample_bilinear", scale_factor_height=2, scale_factor_width=2, align_corners=True
        ),
        "upsample_nearest_x3": _unary(
            "upsample_nearest_neighbor", scale_factor_height=3, scale_factor_width=3
        ),
        "crop_resize": _case(_crop_resize),
        "resample": _case(_resample, _MAP, (1, 32, 32, 2)),
    }


def _products() -> dict[str, Case]:
    return {
        "matmul_dyn": _binary("matmul", _ROWS, (1, 256, 128)),
        "matmul_f32": _binary("matmul", _ROWS, (1, 256, 128), dtypes="fp32"),
        "matmul_batched4d": _binary("matmul", _HEADS, (1, 8, 64, 128)),
        "matmul_bc": _binary("matmul", _HEADS, (1, 1, 64, 128)),
        "sdpa": _case(
            lambda q, k, v: mb.scaled_dot_product_attention(query=q, key=k, value=v), *(_HEADS,) * 3
        ),
        "gru": _recurrent("gru", 3),
        "rnn": _recurrent("rnn", 1),
        "lstm": _recurrent("lstm", 4),
    }


def _statistics() -> dict[str, Case]:
    return {
        "softmax_c": _unary("softmax", axis=1),
        "softmax_h": _unary("softmax", axis=2),
        "layer_norm_hw": _unary("layer_norm", axes=[2, 3]),
        "layer_norm_w": _case(
            lambda x: mb.layer_norm(x=x, axes=[2], gamma=np.ones(256, F16), beta=np.zeros(256, F16)), _ROWS
        ),
        "reduce_min_c": _reduce("reduce_min", 1),
        "reduce_l1_c": _reduce("reduce_l1_norm", 1),
        "reduce_log_sum_c": _reduce("reduce_log_sum", 1),
        "reduce_log_sum_exp_c": _reduce("reduce_log_sum_exp", 1),
        "reduce_sum_w": _reduce("reduce_sum", 3),
        "reduce_argmax_c": _case(
            lambda x: mb.cast(x=mb.reduce_argmax(x=x, axis=1, keep_dims=True), dtype="fp16")
        ),
        "cumsum_c": _unary("cumsum", axis=1),
        "random_normal": _case(_noise),
    }


def _moving() -> dict[str, Case]:
    return {
        "reshape": _unary("reshape", shape=[1, 64, 1024]),
        "reshape_split_c": _unary("reshape", shape=[1, 8, 8, 32, 32]),
        "transpose_hw": _unary("transpose", perm=[0, 1, 3, 2]),
        "concat_n": _join(0),
        "concat_w": _join(3),
        "stack": _case(lambda x, y: mb.stack(values=(x, y), axis=1), _MAP, _MAP),
        "slice_c": _unary("slice_by_index", begin=[0, 8, 0, 0], end=[1, 40, 32, 32]),
        "slice_w_stride2": _unary(
            "slice_by_index", begin=[0, 0, 0, 0], end=[1, 64, 32, 32], stride=[1, 1, 1, 2]
        ),
        "reverse_w": _unary("reverse", axes=[3]),
        "tile": _unary("tile", reps=[1, 2, 1, 2]),
        "pad_const": _unary("pad", pad=[1, 1, 1, 1], mode="constant", constant_val=F16(0)),
        "pad_reflect": _unary("pad", pad=[2, 2, 2, 2], mode="reflect"),
        "space_to_depth": _unary("space_to_depth", block_size=2),
        "pixel_shuffle": _unary("pixel_shuffle", upscale_factor=2),
        "batch_to_space": _case(
            lambda x: mb.batch_to_space(x=x, block_shape=[2, 2], crops=[[0, 0], [0, 0]]), (4, 64, 16, 16)
        ),
        "squeeze_expand": _case(
            lambda x: mb.expand_dims(x=mb.squeeze(x=x, axes=[2]), axes=[3]), (1, 64, 1, 32)
        ),
        "topk_c": _case(lambda x: mb.topk(x=x, k=4, axis=1)[0]),
        "shape": _case(lambda x: mb.cast(x=mb.shape(x=x), dtype="fp16")),
    }


def _looking_up() -> dict[str, Case]:
    return {
        "gather_w": _case(lambda x: mb.gather(x=x, indices=np.arange(0, 32, 2, dtype=np.int32), axis=3)),
        "gather_dyn": _case(
            lambda x, i: mb.gather(x=x, indices=i, axis=0), (1000, 256), (1, 64), dtypes=("fp16", "int32")
        ),
        "embedding": _case(
            lambda i: mb.gather(x=_weight(32000, 256), indices=i, axis=0), (1, 64), dtypes="int32"
        ),
        "gather_nd": _case(lambda x, i: mb.gather_nd(x=x, indices=i), _MAP, (8, 2), dtypes=("fp16", "int32")),
        "scatter": _case(
            lambda x, i, u: mb.scatter(data=x, indices=i, updates=u, axis=3),
            *(_MAP, (4,), (1, 64, 32, 4)),
            dtypes=("fp16", "int32", "fp16"),
        ),
        "one_hot": _case(lambda i: mb.one_hot(indices=i, one_hot_vector_size=128), (1, 64), dtypes="int32"),
    }


def _sweeps() -> dict[str, Case]:
    cases = {f"conv_groups_{g}": _conv(3, 3, groups=g, pad_type="same") for g in (2, 4, 8, 16, 32)}
    cases |= {f"conv_1x{k}": _conv(1, k, pad_type="same") for k in (*range(9, 16), 24, 32, 64)}
    cases |= {f"conv_{k}x1": _conv(k, 1, pad_type="same") for k in (16, 24, 28, 31)}
    cases |= {f"conv_stride_{s}": _conv(s, s, strides=[s, s]) for s in (2, 3, 4, 6, 8)}
    cases |= {f"maxpool_{k}": _pool("max_pool", [k, k], [1, 1], "same") for k in (4, 5, 7)}
    cases |= {f"matmul_K{k}": _binary("matmul", (1, 16, k), (1, k, 16)) for k in (65535, 65536)}
    return cases | {
        "conv_15x15_valid": _conv(15, 15),
        "maxpool_9x9": _pool("max_pool", [9, 9], [1, 1], "same"),
        "maxpool_9x9_valid": _pool("max_pool", [9, 9], [1, 1], "valid"),
        "maxpool_9x1": _pool("max_pool", [9, 1], [1, 1], "same"),
        "maxpool_1x9": _pool("max_pool", [1, 9], [1, 1], "same"),
    }


#: Rows of the published table that cover several models.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "conv_groups_2..32": tuple(f"conv_groups_{g}" for g in (2, 4, 8, 16, 32)),
    "conv_1x9..1x15": tuple(f"conv_1x{k}" for k in range(9, 16)),
    "conv_strides_2_3_4_6_8": tuple(f"conv_stride_{s}" for s in (2, 3, 4, 6, 8)),
}

CASES: Mapping[str, Case] = {
    **_elementwise(),
    **_sizes(),
    **_windows(),
    **_products(),
    **_statistics(),
    **_moving(),
    **_looking_up(),
    **_sweeps(),
}

_TYPES = {"fp16": types.fp16, "fp32": types.fp32, "int32": types.int32}


@functools.cache
def build(name: str, in_context: bool = False) -> Model:
    """Converts the model of a case with coremltools and reads it back. Converted models are cached.

    Args:
        name: One of `CASES`.
        in_context: Puts layers around the operation.
    """
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    path = _KEPT / version / f"{name}{'-in-context' if in_context else ''}.mlpackage"
    if not (path / "Manifest.json").is_file():
        _convert(name, in_context, path)
    return container.read(path)


def _convert(name: str, in_context: bool, path: Path) -> None:
    case = CASES[name]
    inputs = {
        f"x{index}": mb.placeholder(shape=shape, dtype=_TYPES[dtype])
        for index, (shape, dtype) in enumerate(zip(case.inputs, case.dtypes, strict=True))
    }
    with Function(inputs, opset_version=ct.target.iOS18) as function:
        values = list(function.inputs.values())
        if in_context:
            values = [_surrounded(value, f"before{index}_") for index, value in enumerate(values)]
        result = case.build(*values)
        function.set_outputs([_surrounded(result, "after_") if in_context else result])
    program = Program()
    program.add_function("main", function)
    converted = ct.convert(
        program,
        convert_to="mlprogram",
        minimum_deployment_target=ct.target.iOS18,
        compute_precision=ct.precision.FLOAT16,
        skip_model_load=True,
    )
    converted.save(str(path))


def _surrounded(x: Any, tag: str) -> Any:
    """Adds two layers to a float16 value of rank 3 or 4; returns other values unchanged."""
    if x.dtype != types.fp16 or x.rank not in (3, 4):
        return x
    for index in range(2):
        width = x.shape[1] if x.rank == 4 else x.shape[2]
        if x.rank == 4:
            wide = width > _MOST_CHANNELS
            weight = _weight(width, 1 if wide else width, 3, 3)
            x = mb.conv(
                x=x, weight=weight, pad_type="same", groups=width if wide else 1, name=f"{tag}conv{index}"
            )
        elif width > _LONGEST_ROW:
            return x
        else:
            x = mb.linear(x=x, weight=_weight(width, width), name=f"{tag}linear{index}")
        x = mb.relu(x=x, name=f"{tag}relu{index}")
    return x
