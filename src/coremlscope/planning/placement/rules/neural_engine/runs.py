"""Neural Engine: operations that it runs, unless a rule rejects their form."""

from __future__ import annotations

from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.model.ir import DType
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import BUFFERS, FLOATING, always, computes, run_time_tensors
from coremlscope.planning.patterns.publications import (
    ANE_BOOK,
    APPLE_MODELS,
    APPLE_TRANSFORMERS,
    GUIDE_OPS,
    HOLLANCE,
    M1_PLAN,
    M4_PLANS,
    POSE_TIMES,
)
from coremlscope.planning.patterns.rule import (
    Example,
    Rule,
    RuleContext,
    Scope,
    boolean,
    fp16,
    int32,
    tensor,
    weight,
)
from coremlscope.planning.placement.rules.neural_engine.absent import ABSENT

#: Layers: sums of products, poolings and normalizations.
LAYERS = (
    Trait.CONVOLUTION
    | Trait.LINEAR
    | Trait.MATRIX_PRODUCT
    | Trait.ATTENTION
    | Trait.POOLING
    | Trait.CHANNEL_SCALE
    | Trait.NORMALIZATION
    | Trait.MAP_NORMALIZATION
    | Trait.VECTOR_NORMALIZATION
)
#: `einsum` has rules of its own; nothing was published about `conv_quantized`.
OTHER_LAYERS = frozenset({"einsum", "conv_quantized"})
#: Operations that move elements, and resizing, which published lists group with them.
MOVEMENTS = (
    Trait.RESHAPE
    | Trait.TRANSPOSITION
    | Trait.REARRANGEMENT
    | Trait.COPY
    | Trait.SLICE
    | Trait.GATHER
    | Trait.RESIZING
)

#: A14 and M1: the oldest for which lists of operations were published.
_SINCE_M1 = Scope(neural_engine=(13, None))
_MEASURED = f"{M4_PLANS}; {GUIDE_OPS}"
#: Operations of published plans, and of the lists of those that plans of M4 put there.
_ELEMENTWISE = """
    add sub mul real_div floor_div pow maximum minimum equal not_equal greater greater_equal less less_equal
    logical_and select abs atan ceil erf exp exp2 floor round sin sqrt sign clip inverse log rsqrt square
"""
_ACTIVATIONS = """
    relu relu6 leaky_relu prelu thresholded_relu elu gelu sigmoid sigmoid_hard silu linear_activation softplus
    softsign softmax tanh
"""
_PLANNED_LAYERS = """
    conv conv_transpose linear matmul scaled_dot_product_attention batch_norm instance_norm layer_norm l2_norm
    local_response_norm avg_pool max_pool
"""
_REDUCTIONS = """
    reduce_sum reduce_mean reduce_max reduce_min reduce_l1_norm reduce_l2_norm reduce_sum_square
    reduce_log_sum reduce_log_sum_exp topk
"""
_MOVED = """
    gather depth_to_space space_to_depth pixel_shuffle pixel_unshuffle space_to_batch batch_to_space resample
    upsample_nearest_neighbor upsample_bilinear resize_nearest_neighbor resize_bilinear slice_by_index concat
    stack split tile pad reshape expand_dims squeeze transpose reverse
"""

#: The compiler's lists have them; they do not occur in published plans.
_NATIVE = """
    clamped_relu scaled_tanh softplus_parametric threshold reshape_like flatten2d identity fill fill_like
    crop logical_not
"""
NATIVE = frozenset(_NATIVE.split())
#: Operations that ran on the Neural Engines of A12 and A13.
_EARLY = """
    conv conv_transpose avg_pool max_pool batch_norm instance_norm linear add mul relu relu6 leaky_relu
    prelu elu sigmoid tanh concat pad reshape upsample_nearest_neighbor upsample_bilinear transpose
    reduce_mean slice_by_index clip expand_dims squeeze split sub depth_to_space tensor_buffer_to_tensor
    tensor_to_tensor_buffer
"""
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
        ops=(Trait.ARITHMETIC | Trait.FUNCTION | Trait.MASK | Trait.ELEMENTWISE, *_ELEMENTWISE.split()),
        but=ABSENT | NATIVE,
        when=computes,
        effect="runs",
        message="the Neural Engine runs elementwise arithmetic and comparisons",
        source=_MEASURED,
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("add", {"x": fp16(1, 64, 32, 32), "y": fp16(1, 64, 1, 1)}),
            Example("select", {"cond": boolean(1, 8), "a": fp16(1, 8), "b": fp16(1, 8)}),
            Example("erf", {"x": fp16(1, 64, 32, 32)}, chip="m1", os="14.5"),
        ),
        negative_examples=(Example("add", {"x": int32(1, 64), "y": int32(1, 64)}),),
    ),
    Rule(
        id="ne-runs-activations",
        unit=NEURAL_ENGINE,
        ops=(Trait.ACTIVATION | Trait.SOFTMAX, *_ACTIVATIONS.split()),
        but=NATIVE,
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
        negative_examples=(Example("relu", {"x": tensor(DType.INT16, 1, 64)}),),
    ),
    Rule(
        id="ne-runs-layers",
        unit=NEURAL_ENGINE,
        ops=(LAYERS, *_PLANNED_LAYERS.split()),
        but=OTHER_LAYERS,
        when=computes,
        effect="runs",
        message="the Neural Engine runs convolutions, matrix products, poolings and normalizations",
        source=f"{_MEASURED}; {M1_PLAN}",
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("conv", {"x": fp16(1, 64, 32, 32), "weight": weight(64, 64, 3, 3)}),
            Example("conv", {"x": fp16(1, 64, 32, 32), "weight": fp16(64, 64, 3, 3)}),
            Example("layer_norm", {"x": fp16(1, 64, 32, 32), "axes": [2, 3]}),
        ),
        negative_examples=(Example("matmul", {"x": int32(1, 8, 8), "y": int32(1, 8, 8)}),),
    ),
    Rule(
        id="ne-runs-reductions",
        unit=NEURAL_ENGINE,
        ops=(Trait.REDUCTION | Trait.SORTING, *_REDUCTIONS.split()),
        but=ABSENT,
        when=computes,
        effect="runs",
        message="the Neural Engine runs reductions (except products) and top-k",
        source=_MEASURED,
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("reduce_mean", {"x": fp16(1, 64, 32, 32), "axes": [2, 3], "keep_dims": True}),
            Example("topk", {"x": fp16(1, 64, 8), "k": 5, "axis": 1}),
        ),
        negative_examples=(Example("reduce_max", {"x": int32(1, 64), "axes": [1]}),),
    ),
    Rule(
        id="ne-runs-movements",
        unit=NEURAL_ENGINE,
        ops=(MOVEMENTS, *_MOVED.split()),
        but=ABSENT | NATIVE,
        when=computes,
        effect="runs",
        message="the Neural Engine runs operations that move, pad, split, join and resize tensors",
        source=_MEASURED,
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(
            Example("reshape", {"x": fp16(1, 64, 32, 32), "shape": [1, 64, 1024]}),
            Example("gather", {"x": fp16(1, 64, 8, 8), "indices": [0, 5], "axis": 3}),
        ),
        negative_examples=(Example("transpose", {"x": int32(1, 64), "perm": [1, 0]}),),
    ),
    Rule(
        id="ne-runs-conversions",
        unit=NEURAL_ENGINE,
        ops=(Trait.CONVERSION, "cast", "quantize", "dequantize"),
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
        negative_examples=(Example("cast", {"x": fp16(1, 64), "dtype": "int16"}),),
    ),
    Rule(
        id="ne-runs-buffers",
        unit=NEURAL_ENGINE,
        ops=BUFFERS,
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
        negative_examples=(
            Example(
                "einsum", {"values": (int32(1, 8, 1, 8), int32(1, 8, 1, 8)), "equation": "bchq,bkhc->bkhq"}
            ),
        ),
    ),
    Rule(
        id="ne-runs-states",
        unit=NEURAL_ENGINE,
        ops=(Trait.STATE_READ | Trait.STATE_WRITE | Trait.UPDATE, "read_state", "write_state"),
        when=computes,
        effect="runs",
        message="the Neural Engine reads and updates states",
        source=f"{ANE_BOOK}; {GUIDE_OPS}",
        confidence="measured",
        scope=_SINCE_M1,
        applies_to=(Example("slice_update", _STATED, outputs=(fp16(1, 8, 64),)),),
        negative_examples=(
            Example("slice_update", {**_STATED, "x": int32(1, 8, 64)}, outputs=(int32(1, 8, 64),)),
        ),
    ),
    Rule(
        id="ne-runs-argument",
        unit=NEURAL_ENGINE,
        ops=(Trait.ARG_REDUCTION,),
        when=_unsigned_place,
        effect="runs",
        message="the Neural Engine's compiler has an arg-max; no plan with 16-bit results was published",
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
        negative_examples=(Example("reduce_argmax", {"x": fp16(1, 64), "axis": 1}),),
    ),
    Rule(
        id="ne-runs-others",
        unit=NEURAL_ENGINE,
        ops=tuple(_NATIVE.split()),
        when=computes,
        effect="runs",
        message="the Neural Engine's compiler has this operation; no plan with it was published",
        source=GUIDE_OPS,
        confidence="static analysis",
        scope=_SINCE_M1,
        applies_to=(Example("scaled_tanh", {"x": fp16(1, 64), "alpha": 1.0, "beta": 1.0}),),
        negative_examples=(Example("identity", {"x": int32(1, 64)}),),
    ),
    Rule(
        id="ne-runs-early",
        unit=NEURAL_ENGINE,
        ops=tuple(_EARLY.split()),
        when=computes,
        effect="runs",
        message="the Neural Engines of A12 and A13 run the operations of convolutional networks",
        source=HOLLANCE,
        confidence="anecdotal",
        scope=Scope(neural_engine=(None, 12)),
        applies_to=(
            Example("conv", {"x": fp16(1, 64, 32, 32), "weight": weight(64, 64, 3, 3)}, chip="a12", os="17"),
        ),
        negative_examples=(Example("relu", {"x": int32(1, 64)}, chip="a12", os="17"),),
    ),
    Rule(
        id="ne-runs-early-clamps",
        unit=NEURAL_ENGINE,
        ops=("linear_activation", "threshold"),
        when=computes,
        effect="runs",
        message="the Neural Engines of A12 and A13 run relu6 as neural networks write it, by thresholds and"
        " linear activations",
        source=POSE_TIMES,
        confidence="anecdotal",
        scope=Scope(neural_engine=(None, 12)),
        applies_to=(
            Example("threshold", {"x": fp16(1, 64, 32, 32), "alpha": -6.0}, chip="a12", os="17"),
            Example(
                "linear_activation",
                {"x": fp16(1, 64, 32, 32), "alpha": -1.0, "beta": 0.0},
                chip="a13",
                os="17",
            ),
        ),
        negative_examples=(Example("threshold", {"x": int32(1, 64), "alpha": -6.0}, chip="a12", os="17"),),
    ),
)
