"""GPU: what it runs and what it does not run."""

from __future__ import annotations

from coremlscope.devices.unit import GPU
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import BUFFERS, always
from coremlscope.planning.patterns.publications import APPLE_LLAMA, GUIDE_OPS, M1_PLAN, M4_PLANS, RESAMPLE
from coremlscope.planning.patterns.rule import (
    Example,
    Rule,
    RuleContext,
    Scope,
    boolean,
    fp16,
    int32,
    weight,
)
from coremlscope.planning.placement.rules.neural_engine.runs import LAYERS, MOVEMENTS, NATIVE, OTHER_LAYERS

_KINDS = (
    LAYERS
    | MOVEMENTS
    | Trait.ACTIVATION
    | Trait.SOFTMAX
    | Trait.ARITHMETIC
    | Trait.FUNCTION
    | Trait.MASK
    | Trait.ELEMENTWISE
    | Trait.CONVERSION
    | Trait.REDUCTION
    | Trait.ARG_REDUCTION
    | Trait.SORTING
    | Trait.SCATTER
    | Trait.GENERATION
    | Trait.RANDOM
    | Trait.RECURRENCE
)
#: Operations of published plans that it runs or could run.
_PLANNED = """
    relu leaky_relu prelu gelu linear_activation softsign softmax quantize dequantize cast conv conv_transpose
    linear matmul scaled_dot_product_attention rnn gru batch_norm layer_norm avg_pool max_pool add sub mul
    real_div mod maximum greater greater_equal less_equal select abs asin erf floor round sin sinh sqrt sign
    clip inverse rsqrt gather gather_along_axis gather_nd scatter one_hot cumsum random_normal space_to_depth
    pixel_shuffle batch_to_space reduce_sum reduce_mean reduce_min reduce_l1_norm reduce_log_sum
    reduce_log_sum_exp reduce_argmax topk resample upsample_nearest_neighbor upsample_bilinear slice_by_index
    concat stack split tile pad reshape expand_dims squeeze transpose reverse
"""
#: MPSGraph supports them; they do not occur in published plans.
_NATIVE = NATIVE | {"logical_or", "logical_xor", "shape"}
#: Published plans show that the GPU does not run them in some or all forms.
_REJECTED = frozenset({"crop_resize", "sliding_windows", "affine", "resize"})
#: Nothing was published about these on the GPU.
_UNPUBLISHED = frozenset({"reverse_sequence"})


def _shrinks(view: OpView, context: RuleContext) -> bool:
    before, after = view.shape("x"), view.output_type().shape or ()
    return any(a is not None and b is not None and a < b for a, b in zip(after, before, strict=True))


RULES: tuple[Rule, ...] = (
    Rule(
        id="gpu-runs",
        unit=GPU,
        ops=(_KINDS, *BUFFERS, *_PLANNED.split()),
        but=_NATIVE | _REJECTED | _UNPUBLISHED | OTHER_LAYERS,
        when=always,
        effect="runs",
        message="the GPU runs this operation, integers and float32 included",
        source=f"{M4_PLANS}; {M1_PLAN}",
        confidence="measured",
        applies_to=(
            Example("mul", {"x": int32(1, 64), "y": int32(1, 64)}),
            Example("cumsum", {"x": fp16(1, 64), "axis": 1}),
            Example("relu", {"x": fp16(1, 1, 65537, 1)}),
            Example("gather", {"x": weight(1000, 256), "indices": int32(1, 64), "axis": 0}),
        ),
    ),
    Rule(
        id="gpu-runs-others",
        unit=GPU,
        ops=tuple(sorted(_NATIVE)),
        when=always,
        effect="runs",
        message="MPSGraph, the GPU's backend, supports this operation; no plan with it was published",
        source="Apple's documentation of MPSGraph",
        confidence="static analysis",
        applies_to=(
            Example("logical_not", {"x": boolean(1, 8)}),
            Example("shape", {"x": fp16(1, None)}),
        ),
    ),
    Rule(
        id="gpu-runs-states",
        unit=GPU,
        ops=(Trait.STATE_READ | Trait.STATE_WRITE | Trait.UPDATE,),
        when=always,
        effect="runs",
        message="the GPU reads and updates states",
        source=APPLE_LLAMA,
        confidence="documented",
        applies_to=(
            Example(
                "slice_update",
                {"x": fp16(1, 8), "update": fp16(1, 1), "begin": [0, 2], "end": [1, 3]},
                outputs=(fp16(1, 8),),
            ),
        ),
    ),
    Rule(
        id="gpu-runs-einsum",
        unit=GPU,
        ops=("einsum",),
        when=always,
        effect="runs",
        message="the GPU runs einsum",
        source="apple/ml-stable-diffusion: attention written with einsum, on CPU_AND_GPU",
        confidence="anecdotal",
        applies_to=(
            Example(
                "einsum",
                {"values": (fp16(1, 64, 1, 128), fp16(1, 128, 1, 64)), "equation": "bchq,bkhc->bkhq"},
            ),
        ),
    ),
    Rule(
        id="gpu-runs-suppression",
        unit=GPU,
        ops=("non_maximum_suppression",),
        when=always,
        effect="runs",
        message="non-maximum suppression runs on the GPU or the CPU",
        source=GUIDE_OPS,
        confidence="static analysis",
        applies_to=(
            Example(
                "non_maximum_suppression",
                {"boxes": fp16(1, 100, 4), "scores": fp16(1, 100, 8)},
                outputs=(fp16(1, 10, 4),),
            ),
        ),
    ),
    *(
        Rule(
            id=f"gpu-{op.replace('_', '-')}",
            unit=GPU,
            ops=(op,),
            when=always,
            message=f"the GPU does not run {op}",
            fix=fix,
            source=M4_PLANS,
            confidence="measured",
            applies_to=(Example(op, arguments, outputs=outputs),),
        )
        for op, fix, arguments, outputs in (
            (
                "crop_resize",
                "crop in the app, or use resize_bilinear on crops with constant corners",
                {"x": fp16(1, 64, 32, 32), "boxes": fp16(4, 4)},
                (fp16(4, 64, 8, 8),),
            ),
            (
                "non_zero",
                "keep all elements and a mask, or take a fixed number with topk",
                {"x": fp16(1, 64)},
                (int32(None, 2),),
            ),
            (
                "range_1d",
                "make it a constant, or pass it in",
                {"start": int32(), "end": 64, "step": 1},
                (int32(None),),
            ),
            (
                "sliding_windows",
                "unfold with slices, or with a convolution by an identity kernel",
                {"x": fp16(1, 64), "axis": 1, "size": 4},
                (fp16(1, 61, 4),),
            ),
            (
                "affine",
                "warp in the app, or with resample, which the GPU runs",
                {"x": fp16(1, 3, 8, 8), "transform_matrix": fp16(1, 6)},
                (fp16(1, 3, 8, 8),),
            ),
        )
    ),
    Rule(
        id="gpu-resample-before-ios-17",
        unit=GPU,
        ops=("resample",),
        when=always,
        message="before iOS 17 and macOS 14 only the CPU runs resample",
        fix="resize by whole factors with resize_nearest_neighbor or resize_bilinear, or warp in the app",
        source=RESAMPLE,
        confidence="measured",
        scope=Scope(before=(17, 0)),
        applies_to=(
            Example(
                "resample",
                {"x": fp16(1, 3, 8, 8), "coordinates": fp16(1, 4, 4, 2)},
                outputs=(fp16(1, 3, 4, 4),),
                chip="m2",
                os="13.4",
            ),
        ),
    ),
    Rule(
        id="gpu-resize-down",
        unit=GPU,
        ops=("resize",),
        when=_shrinks,
        message="the GPU does not downscale with the operation resize",
        fix="use resize_bilinear or resize_nearest_neighbor (opsets up to iOS 17), or an average pooling",
        source=M4_PLANS,
        confidence="measured",
        applies_to=(Example("resize", {"x": fp16(1, 64, 32, 32)}, outputs=(fp16(1, 64, 16, 16),)),),
        negative_examples=(Example("resize", {"x": fp16(1, 64, 32, 32)}, outputs=(fp16(1, 64, 64, 64),)),),
    ),
)
