"""Forms that return wrong values, though plans put them there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.devices.unit import GPU, NEURAL_ENGINE, UNITS
from coremlscope.model.ir import Constant, DType, Immediate, Value
from coremlscope.ops.view import OpView
from coremlscope.planning.hazards.hazard import GraphPattern, KnownHazard, OpPattern
from coremlscope.planning.patterns.forms import kernel
from coremlscope.planning.patterns.publications import GEMMA_CHAT, GUIDE_PITFALLS, MOBIUS
from coremlscope.planning.patterns.rule import (
    EVERY_OP,
    Example,
    GraphContext,
    GraphExample,
    Result,
    RuleContext,
    Scope,
    fp16,
    fp32,
    int32,
    weight,
)

#: The fused attention.
ATTENTION = "scaled_dot_product_attention"
#: The smallest batch that was wrong; 9 was right.
_MANY = 10
#: Operations that the Neural Engine computes from exponentials: their results are 0 where they are larger.
#: softplus returns 0 where eˣ reaches 2¹⁵, and the logarithm of a sum where that sum passes 65504.
EXPONENTIAL_LIMITS: Mapping[str, float] = {
    "softplus": math.log1p(2.0**15),
    "reduce_log_sum_exp": math.log(65504.0),
}
#: Constants up to this size are searched for NaN.
_SMALL = 4096
#: What may stand between the scores of an attention and their softmax.
_MASKING = frozenset({"add", "sub", "mul", "real_div", "select", "cast"})


def _uneven_or_cropped(view: OpView, context: RuleContext) -> str:
    """Where `output_shape` is not what kernel, strides and padding give, or the padding is uneven."""
    result = view.integers("output_shape")[2:]
    sizes, given = kernel(view), view.static_shape("x")[2:]
    strides = view.integers("strides", [1] * len(sizes))
    dilations = view.integers("dilations", [1] * len(sizes))
    mode = view.text("pad_type", "valid")
    pads = view.integers("pad", [0] * 2 * len(sizes)) if mode == "custom" else [0] * 2 * len(sizes)
    if mode.startswith("same"):
        whole = [size * stride for size, stride in zip(given, strides, strict=True)]
    else:
        whole = [
            (size - 1) * stride + (extent - 1) * dilation + 1 - pads[2 * axis] - pads[2 * axis + 1]
            for axis, (size, stride, extent, dilation) in enumerate(
                zip(given, strides, sizes, dilations, strict=True)
            )
        ]
    if result != whole:
        return f"{'x'.join(map(str, whole))} becomes {'x'.join(map(str, result))}"
    uneven = any(pads[2 * axis] != pads[2 * axis + 1] for axis in range(len(sizes)))
    return f"the padding is {', '.join(map(str, pads))}" if uneven else ""


def _makers(view: OpView, context: GraphContext) -> Iterator[OpView]:
    for given in view.op.inputs.values():
        for argument in given:
            maker = context.producers.get(argument.name) if isinstance(argument, Value) else None
            if maker is not None:
                yield maker


def _scores(view: OpView, context: GraphContext) -> OpView | None:
    """The product of queries and keys whose softmax this is, also scaled and masked."""
    level = [view]
    for _ in range(5):
        level = [maker for one in level for maker in _makers(one, context)]
        if (found := next((one for one in level if one.op.type == "matmul"), None)) is not None:
            return found
        level = [one for one in level if one.op.type in _MASKING]
    return None


def _many_attentions(context: GraphContext) -> Mapping[str, str]:
    """Fused attentions, and softmaxes of products that are multiplied again, over many elements."""
    multiplied = {
        argument.name
        for _, view in context.ops
        if view.op.type == "matmul"
        for argument in view.op.inputs.get("x", ())
        if isinstance(argument, Value)
    }
    found = {}
    for id_, view in context.ops:
        shape: tuple[int | None, ...] = ()
        if view.op.type == ATTENTION:
            shape = view.shape("query")
        elif view.op.type == "softmax" and view.op.outputs[0].name in multiplied:
            scores = _scores(view, context)
            shape = () if scores is None else scores.output_type().shape or ()
            # Of rank 3, the first axis may hold heads.
            shape = shape if len(shape) > 3 else ()
        if shape and (shape[0] or 0) >= _MANY:
            found[id_] = f"a batch of {shape[0]}"
    return found


def _is_nan(constant: Constant | None) -> bool:
    if constant is None or not isinstance(constant.data, Immediate):
        return False
    array: Any = constant.data.array
    return bool(array.dtype.kind == "f" and array.size <= _SMALL and np.isnan(array).any())


def _nan(context: GraphContext) -> Mapping[str, str]:
    found = {}
    for id_, view in context.ops:
        if view.op.type in ("equal", "not_equal") and view.op.inputs.get("x") == view.op.inputs.get("y"):
            found[id_] = "a value is compared with itself"
        elif any(_is_nan(bound.constant) for given in view.inputs.values() for bound in given):
            found[id_] = "a constant holds NaN"
    return found


def attention(shape: tuple[int, ...], **more: object) -> dict[str, object]:
    """Returns the arguments of a fused attention, for examples."""
    return {**dict.fromkeys(("query", "key", "value"), fp16(*shape)), **more}


def _overflows(view: OpView, context: RuleContext) -> str:
    limit = EXPONENTIAL_LIMITS[view.op.type]
    return f"{view.op.type} above {limit:.1f}" if view.output_type().dtype is DType.FP16 else ""


_PRODUCT = Example("matmul", {"x": fp16(12, 4, 16, 32), "y": fp16(12, 4, 32, 16)})
_ONE = Example("matmul", {"x": fp16(1, 12, 16, 32), "y": fp16(1, 12, 32, 16)})


def _written_out(product: Example, batch: int, heads: int) -> tuple[Example, ...]:
    return (
        product,
        Example("add", {"x": Result(0), "y": fp16(1, 1, 16, 16)}),
        Example("softmax", {"x": Result(1), "axis": -1}),
        Example("matmul", {"x": Result(2), "y": fp16(batch, heads, 16, 32)}),
    )


_X, _W = fp16(1, 3, 4, 4), weight(3, 3, 3, 3)

HAZARDS: tuple[KnownHazard, ...] = (
    KnownHazard(
        id="transposed-output-shape",
        kind="wrong values",
        units=UNITS,
        text="a transposed convolution with an output_shape that crops, or with uneven padding, gave other"
        " values on other units, and shifted ones in float16: {detail}",
        fix="leave output_shape out, and cut the result with slice_by_index behind the operation",
        source="apple/coremltools issues 2281 and 2324 (M1, macOS 14.3); microsoft/onnxruntime pull request"
        " 21416; which unit is wrong, and whether later systems are, is not published",
        confidence="measured",
        pattern=OpPattern(
            ops=("conv_transpose",),
            when=_uneven_or_cropped,
            accepts=(
                Example("conv_transpose", {"x": _X, "weight": _W, "output_shape": [1, 3, 4, 4]}),
                Example(
                    "conv_transpose",
                    {
                        "x": fp16(1, 1, 4),
                        "weight": weight(1, 2, 3),
                        "strides": [2],
                        "pad_type": "custom",
                        "pad": [1, 0],
                        "output_shape": [1, 2, 8],
                    },
                ),
            ),
            rejects=(
                Example("conv_transpose", {"x": _X, "weight": _W}),
                Example("conv_transpose", {"x": _X, "weight": _W, "output_shape": [1, 3, 6, 6]}),
                Example(
                    "conv_transpose",
                    {
                        "x": _X,
                        "weight": _W,
                        "strides": [2, 2],
                        "pad_type": "same",
                        "output_shape": [1, 3, 8, 8],
                    },
                ),
            ),
        ),
    ),
    KnownHazard(
        id="gather-nd-at-run-time",
        kind="wrong values",
        units=UNITS,
        text="gather_nd with indices only known at run time returned slice 0 for some shapes",
        fix="make the indices constant, or use gather or gather_along_axis",
        source="microsoft/onnxruntime pull request 28598; which shapes and which unit is not published",
        confidence="anecdotal",
        pattern=OpPattern(
            ops=("gather_nd",),
            when=lambda view, context: view.has("indices") and view.bound("indices").constant is None,
            accepts=(Example("gather_nd", {"x": fp16(4, 8, 16), "indices": int32(5, 1)}),),
            rejects=(
                Example("gather_nd", {"x": fp16(4, 8, 16), "indices": weight(2, 1, dtype=DType.INT32)}),
            ),
        ),
    ),
    KnownHazard(
        id="attention-mask",
        kind="wrong values",
        units=(NEURAL_ENGINE,),
        text="the Neural Engine ignores the mask of a fused attention: every query attends to every key",
        fix="write the attention as matmul, add, softmax and matmul: leave"
        " common::fuse_attention_to_sdpa out of the pass pipeline, or convert for iOS 17",
        source=f"{GEMMA_CHAT} (M4 Pro, macOS 27), where masks of numbers and of booleans were ignored",
        confidence="measured",
        scope=Scope(since=(27, 0)),
        pattern=OpPattern(
            ops=(ATTENTION,),
            when=lambda view, context: view.has("attn_mask"),
            accepts=(Example(ATTENTION, attention((1, 8, 128, 64), attn_mask=fp16(1, 1, 128, 128))),),
            rejects=(Example(ATTENTION, attention((1, 8, 128, 64))),),
        ),
    ),
    KnownHazard(
        id="attention-of-many",
        kind="wrong values",
        units=(GPU,),
        text="the GPU of macOS 26.2 computes fused attention wrongly for ten elements or more: {detail}",
        fix="predict nine elements at most at once, or load with CPU_AND_NE",
        source="apple/coremltools issue 2650 (macOS 26.2): product, bias, softmax, product; that attention"
        " without a bias and the operation itself are concerned is inferred",
        confidence="measured",
        scope=Scope(since=(26, 2), before=(26, 3)),
        pattern=GraphPattern(
            ops=("softmax", ATTENTION),
            find=_many_attentions,
            examples=(
                GraphExample(ops=_written_out(_PRODUCT, 12, 4), hits=(2,), os="26.2"),
                GraphExample(ops=_written_out(_ONE, 1, 12), os="26.2"),
                GraphExample(ops=(Example(ATTENTION, attention((10, 4, 16, 32))),), hits=(0,), os="26.2"),
            ),
        ),
    ),
    KnownHazard(
        id="exponential-overflow",
        kind="wrong values",
        units=(NEURAL_ENGINE,),
        text="the Neural Engine computes this from exponentials, and returns 0 where they overflow float16:"
        " {detail}",
        fix="use a form that does not overflow, such as relu(x) + log(1 + exp(-|x|)) for softplus, or the"
        " maximum subtracted first; `coremlscope verify` finds whether inputs reach it; or load with"
        " CPU_AND_GPU",
        source="apple/coremltools issues 2687 and 2690 (M1 to M4), and 2359 for Mish; Apple's forum, thread"
        " 831370",
        confidence="measured",
        pattern=OpPattern(
            ops=tuple(EXPONENTIAL_LIMITS),
            when=_overflows,
            accepts=(
                Example("softplus", {"x": fp16(1, 8)}),
                Example("reduce_log_sum_exp", {"x": fp16(1, 8), "axes": [-1], "keep_dims": True}),
            ),
            rejects=(Example("softplus", {"x": fp32(1, 8)}),),
        ),
    ),
    KnownHazard(
        id="nan",
        kind="wrong values",
        units=(NEURAL_ENGINE,),
        text="NaN does not survive on the Neural Engine, where it becomes a large number: {detail}",
        fix="pass a mask as an input of its own, or use a large number such as -40000 for what is missing",
        source=f"{MOBIUS}: candidates for the Neural Engine; {GUIDE_PITFALLS}",
        confidence="measured",
        pattern=GraphPattern(
            ops=EVERY_OP,
            find=_nan,
            examples=(
                GraphExample(
                    ops=(
                        Example("relu", {"x": fp16(1, 8)}),
                        Example("not_equal", {"x": Result(0), "y": Result(0)}),
                    ),
                    hits=(1,),
                ),
                GraphExample(ops=(Example("mul", {"x": fp16(1, 2), "y": [1.0, math.nan]}),), hits=(0,)),
                GraphExample(
                    ops=(
                        Example("relu", {"x": fp16(1, 8)}),
                        Example("not_equal", {"x": Result(0), "y": fp16(1, 8)}),
                    ),
                ),
            ),
        ),
    ),
)
