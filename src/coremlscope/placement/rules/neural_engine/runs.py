"""Neural Engine: operations that it runs, unless a rule rejects their form."""

from __future__ import annotations

from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.ir import DType
from coremlscope.ops.view import OpView
from coremlscope.placement.forms import FLOATING, always, computes, run_time_tensors
from coremlscope.placement.publications import (
    ANE_BOOK,
    APPLE_MODELS,
    APPLE_TRANSFORMERS,
    GUIDE_OPS,
    HOLLANCE,
    M1_PLAN,
    M4_PLANS,
)
from coremlscope.placement.rule import Example, Rule, RuleContext, Scope, boolean, fp16, int32, tensor, weight

__all__ = ["RULES"]

#: A14 and M1: the oldest for which lists of operations were published.
_SINCE_M1 = Scope(neural_engine=(13, None))
_MEASURED = f"{M4_PLANS}; {GUIDE_OPS}"

_ELEMENTWISE = (
    *("add", "sub", "mul", "real_div", "floor_div", "pow", "maximum", "minimum", "abs", "sqrt", "rsqrt"),
    *("inverse", "square", "exp", "exp2", "log", "erf", "sign", "ceil", "floor", "round", "clip", "atan"),
    *("sin", "cos", "equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "select"),
    *("logical_and",),
)
_ACTIVATIONS = (
    *("relu", "relu6", "leaky_relu", "prelu", "elu", "gelu", "silu", "sigmoid", "sigmoid_hard", "tanh"),
    *("softplus", "softsign", "thresholded_relu", "linear_activation", "softmax"),
)
_PRODUCTS = (
    *("conv", "conv_transpose", "linear", "matmul", "scaled_dot_product_attention"),
    *("avg_pool", "max_pool", "l2_pool", "batch_norm", "instance_norm", "layer_norm", "l2_norm"),
    "local_response_norm",
)
_REDUCTIONS = (
    *("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_sum_square", "reduce_l1_norm"),
    *("reduce_l2_norm", "reduce_log_sum", "reduce_log_sum_exp", "topk"),
)
_MOVEMENTS = (
    *("reshape", "transpose", "squeeze", "expand_dims", "concat", "split", "stack", "tile", "pad", "reverse"),
    *("slice_by_index", "slice_by_size", "gather", "gather_nd", "gather_along_axis", "pixel_shuffle"),
    *("pixel_unshuffle", "depth_to_space", "space_to_depth", "space_to_batch", "batch_to_space"),
    *("resize", "resize_bilinear", "resize_nearest_neighbor", "upsample_bilinear"),
    *("upsample_nearest_neighbor", "resample", "affine"),
)
_ALSO_NATIVE = (
    *("clamped_relu", "scaled_tanh", "softplus_parametric", "threshold", "reshape_like", "flatten2d"),
    *("identity", "fill", "fill_like", "crop", "logical_not"),
)
#: What ran on the Neural Engines of A12 and A13.
_EARLY = (
    *(
        "conv",
        "conv_transpose",
        "avg_pool",
        "max_pool",
        "batch_norm",
        "instance_norm",
        "linear",
        "add",
        "mul",
    ),
    *(
        "relu",
        "relu6",
        "leaky_relu",
        "prelu",
        "elu",
        "sigmoid",
        "tanh",
        "concat",
        "pad",
        "reshape",
    ),
    *("upsample_nearest_neighbor", "upsample_bilinear", "transpose", "reduce_mean", "slice_by_index", "clip"),
    *("expand_dims", "squeeze", "split", "sub", "depth_to_space", "tensor_buffer_to_tensor"),
    *("tensor_to_tensor_buffer",),
)
_CONVERTED = frozenset({*FLOATING, DType.INT8, DType.UINT8})


def _converts(view: OpView, context: RuleContext) -> bool:
    return all(type_.dtype in _CONVERTED for _, type_ in run_time_tensors(view))


def _unsigned_place(view: OpView, context: RuleContext) -> bool:
    return view.output_type().dtype is DType.UINT16 and computes(view, context)


_STATED = {"x": fp16(1, 8, 64), "update": fp16(1, 1, 64), "begin": [0, 2, 0], "end": [1, 3, 64]}

RULES: tuple[Rule, ...] = (
    Rule(
        id="ne-runs-elementwise",
        unit=NEURAL_ENGINE,
        ops=_ELEMENTWISE,
        when=computes,
        effect="runs",
        message="the Neural Engine runs element-wise arithmetic and comparisons",
        source=_MEASURED,
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("add", {"x": fp16(1, 64, 32, 32), "y": fp16(1, 64, 1, 1)}),
            Example("select", {"cond": boolean(1, 8), "a": fp16(1, 8), "b": fp16(1, 8)}),
            Example("erf", {"x": fp16(1, 64, 32, 32)}, chip="m1", os="14.5"),
        ),
        spares=(Example("add", {"x": int32(1, 64), "y": int32(1, 64)}),),
    ),
    Rule(
        id="ne-runs-activations",
        unit=NEURAL_ENGINE,
        ops=_ACTIVATIONS,
        when=computes,
        effect="runs",
        message="the Neural Engine runs activations and softmax over any axis",
        source=f"{_MEASURED}; {M1_PLAN}",
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("gelu", {"x": fp16(1, 64, 32, 32), "mode": "EXACT"}),
            Example("softmax", {"x": fp16(1, 64, 32, 32), "axis": -2}),
        ),
        spares=(Example("relu", {"x": tensor(DType.INT16, 1, 64)}),),
    ),
    Rule(
        id="ne-runs-layers",
        unit=NEURAL_ENGINE,
        ops=_PRODUCTS,
        when=computes,
        effect="runs",
        message="the Neural Engine runs convolutions, products of matrices, poolings and norms",
        source=f"{_MEASURED}; {M1_PLAN}",
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("conv", {"x": fp16(1, 64, 32, 32), "weight": weight(64, 64, 3, 3)}),
            Example("conv", {"x": fp16(1, 64, 32, 32), "weight": fp16(64, 64, 3, 3)}),
            Example("layer_norm", {"x": fp16(1, 64, 32, 32), "axes": [2, 3]}),
        ),
        spares=(Example("matmul", {"x": int32(1, 8, 8), "y": int32(1, 8, 8)}),),
    ),
    Rule(
        id="ne-runs-reductions",
        unit=NEURAL_ENGINE,
        ops=_REDUCTIONS,
        when=computes,
        effect="runs",
        message="the Neural Engine runs reductions (but products) and top-k",
        source=_MEASURED,
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("reduce_mean", {"x": fp16(1, 64, 32, 32), "axes": [2, 3], "keep_dims": True}),
            Example("topk", {"x": fp16(1, 64, 8), "k": 5, "axis": 1}),
        ),
        spares=(Example("reduce_max", {"x": int32(1, 64), "axes": [1]}),),
    ),
    Rule(
        id="ne-runs-movements",
        unit=NEURAL_ENGINE,
        ops=_MOVEMENTS,
        when=computes,
        effect="runs",
        message="the Neural Engine runs what moves, pads, cuts, joins and resizes tensors",
        source=_MEASURED,
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("reshape", {"x": fp16(1, 64, 32, 32), "shape": [1, 64, 1024]}),
            Example("gather", {"x": fp16(1, 64, 8, 8), "indices": [0, 5], "axis": 3}),
        ),
        spares=(Example("transpose", {"x": int32(1, 64), "perm": [1, 0]}),),
    ),
    Rule(
        id="ne-runs-conversions",
        unit=NEURAL_ENGINE,
        ops=("cast", "quantize", "dequantize"),
        when=_converts,
        effect="runs",
        message="the Neural Engine converts between float16, float32, 8-bit integers and booleans",
        source=_MEASURED,
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("cast", {"x": fp16(1, 64), "dtype": "int8"}),
            Example("cast", {"x": boolean(1, 64), "dtype": "fp16"}),
        ),
        spares=(Example("cast", {"x": fp16(1, 64), "dtype": "int16"}),),
    ),
    Rule(
        id="ne-runs-buffers",
        unit=NEURAL_ENGINE,
        ops=("tensor_buffer_to_tensor", "tensor_to_tensor_buffer"),
        when=always,
        effect="runs",
        message="the Neural Engine reads the model's inputs and writes its outputs",
        source=f"{M4_PLANS}; {M1_PLAN}",
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("tensor_buffer_to_tensor", {"input": fp16(1, 64)}, outputs=(fp16(1, 64),)),
            Example("tensor_to_tensor_buffer", {"input": fp16(1, 64)}, outputs=(fp16(1, 64),)),
        ),
    ),
    Rule(
        id="ne-runs-einsum",
        unit=NEURAL_ENGINE,
        ops=("einsum",),
        when=computes,
        effect="runs",
        message="the Neural Engine runs einsum; the form bchq,bkhc->bkhq needs no transpose",
        source=f"{APPLE_MODELS}; {APPLE_TRANSFORMERS}",
        confidence="documented",
        scope=_SINCE_M1,
        applies_to=(
            Example(
                "einsum",
                {"values": (fp16(1, 64, 1, 128), fp16(1, 128, 1, 64)), "equation": "bchq,bkhc->bkhq"},
            ),
        ),
        spares=(
            Example(
                "einsum", {"values": (int32(1, 8, 1, 8), int32(1, 8, 1, 8)), "equation": "bchq,bkhc->bkhq"}
            ),
        ),
    ),
    Rule(
        id="ne-runs-states",
        unit=NEURAL_ENGINE,
        ops=("read_state", "write_state", "slice_update"),
        when=computes,
        effect="runs",
        message="the Neural Engine reads and updates states",
        source=f"{ANE_BOOK}; {GUIDE_OPS}",
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(Example("slice_update", _STATED, outputs=(fp16(1, 8, 64),)),),
        spares=(Example("slice_update", {**_STATED, "x": int32(1, 8, 64)}, outputs=(int32(1, 8, 64),)),),
    ),
    Rule(
        id="ne-runs-argument",
        unit=NEURAL_ENGINE,
        ops=("reduce_argmax", "reduce_argmin"),
        when=_unsigned_place,
        effect="runs",
        message="the Neural Engine's compiler has an arg-max; of 16-bit results no plan was published",
        source=GUIDE_OPS,
        confidence="static analysis",
        scope=_SINCE_M1,
        applies_to=(
            Example(
                "reduce_argmax",
                {"x": fp16(1, 64), "axis": 1, "output_dtype": "uint16"},
                outputs=(tensor(DType.UINT16, 1, 1),),
            ),
        ),
        spares=(Example("reduce_argmax", {"x": fp16(1, 64), "axis": 1}),),
    ),
    Rule(
        id="ne-runs-others",
        unit=NEURAL_ENGINE,
        ops=_ALSO_NATIVE,
        when=computes,
        effect="runs",
        message="the Neural Engine's compiler has this operation; no plan with it was published",
        source=GUIDE_OPS,
        confidence="static analysis",
        scope=_SINCE_M1,
        applies_to=(Example("scaled_tanh", {"x": fp16(1, 64), "alpha": 1.0, "beta": 1.0}),),
        spares=(Example("identity", {"x": int32(1, 64)}),),
    ),
    Rule(
        id="ne-runs-early",
        unit=NEURAL_ENGINE,
        ops=_EARLY,
        when=computes,
        effect="runs",
        message="the Neural Engines of A12 and A13 run what convolutional networks are made of",
        source=HOLLANCE,
        confidence="anecdotal",
        scope=Scope(neural_engine=(None, 12)),
        applies_to=(
            Example("conv", {"x": fp16(1, 64, 32, 32), "weight": weight(64, 64, 3, 3)}, chip="a12", os="17"),
        ),
        spares=(Example("relu", {"x": int32(1, 64)}, chip="a12", os="17"),),
    ),
)
