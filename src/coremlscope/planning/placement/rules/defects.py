"""Defects of Core ML's units: forms that return wrong values or end the app, though plans put them there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.model.ir import Constant, DType, Immediate, Value
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.placement.forms import always, kernel
from coremlscope.planning.placement.publications import FLUID_AUDIO, GEMMA_CHAT, GUIDE_PITFALLS, MOBIUS
from coremlscope.planning.placement.rules.rule import (
    EVERY_OP,
    Example,
    GraphContext,
    GraphExample,
    GraphRule,
    ProgramFacts,
    Result,
    Rule,
    RuleContext,
    Scope,
    fp16,
    fp32,
    int32,
    weight,
)

_ATTENTION = "scaled_dot_product_attention"
#: The smallest batch that was wrong; 9 was right.
_MANY = 10
#: Heads of 512 failed and heads of 256 did not; between them nothing is published.
_LARGE_HEAD = 256
#: Keys times head: 64 times 64 and 8 times 512 ran, 64 times 128 ended the app. 112 times 112 ran, so both
#: are taken to be whole rows of 64 bytes; that is inferred.
_LARGE_KEYS, _ROW = 8192, 32
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


def _dilated_groups(view: OpView, context: RuleContext) -> str:
    groups, dilation = view.integer("groups", 1), view.integers("dilations", [1])
    if len(view.shape("x")) != 3 or groups == 1 or max(dilation) == 1:
        return ""
    return f"{groups} groups, dilation {dilation[0]}"


def _several_queries(view: OpView, context: RuleContext) -> str:
    queries, (keys, head) = view.static_shape("query")[-2], view.static_shape("key")[-2:]
    is_whole = keys % _ROW == 0 and head % _ROW == 0
    is_half = view.type("query").dtype is DType.FP16
    if not is_half or queries < 2 or not is_whole or keys * head < _LARGE_KEYS:
        return ""
    return f"{queries} queries, {keys} keys, heads of {head}"


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
        if view.op.type == _ATTENTION:
            shape = view.shape("query")
        elif view.op.type == "softmax" and view.op.outputs[0].name in multiplied:
            scores = _scores(view, context)
            shape = () if scores is None else scores.output_type().shape or ()
            # Of rank 3, the first axis may hold heads.
            shape = shape if len(shape) > 3 else ()
        if shape and (shape[0] or 0) >= _MANY:
            found[id_] = f"a batch of {shape[0]}"
    return found


def _large_attentions(context: GraphContext) -> Mapping[str, str]:
    large = [
        (id_, head)
        for id_, view in context.ops
        if view.op.type == _ATTENTION and (head := view.shape("query")[-1] or 0) > _LARGE_HEAD
    ]
    return {large[-1][0]: f"{len(large)} with heads of {large[-1][1]}"} if len(large) > 1 else {}


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


def _enumerated(context: GraphContext) -> Mapping[str, str]:
    names = [name for name, kind in context.facts.flexible_inputs.items() if kind == "enumerated"]
    return {id_: ", ".join(names) for id_, _ in context.ops} if names else {}


def _attention(shape: tuple[int, ...], **more: object) -> dict[str, object]:
    return {**dict.fromkeys(("query", "key", "value"), fp16(*shape)), **more}


def _transposed(unit: ComputeUnit, prefix: str) -> Rule:
    x, w = fp16(1, 3, 4, 4), weight(3, 3, 3, 3)
    return Rule(
        id=f"{prefix}-transposed-output-shape",
        unit=unit,
        ops=("conv_transpose",),
        when=_uneven_or_cropped,
        effect="corrupts",
        message="a transposed convolution with an output_shape that crops, or with uneven padding, gave other"
        " values on other units, and shifted ones in float16: {detail}",
        fix="leave output_shape out, and cut the result with slice_by_index behind the operation",
        source="apple/coremltools issues 2281 and 2324 (M1, macOS 14.3); microsoft/onnxruntime pull request"
        " 21416; which unit is wrong, and whether later systems are, is not published",
        confidence="measured",
        applies_to=(
            Example("conv_transpose", {"x": x, "weight": w, "output_shape": [1, 3, 4, 4]}),
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
        negative_examples=(
            Example("conv_transpose", {"x": x, "weight": w}),
            Example("conv_transpose", {"x": x, "weight": w, "output_shape": [1, 3, 6, 6]}),
            Example(
                "conv_transpose",
                {"x": x, "weight": w, "strides": [2, 2], "pad_type": "same", "output_shape": [1, 3, 8, 8]},
            ),
        ),
    )


def _looked_up(unit: ComputeUnit, prefix: str) -> Rule:
    x = fp16(4, 8, 16)
    return Rule(
        id=f"{prefix}-gather-nd-at-run-time",
        unit=unit,
        ops=("gather_nd",),
        when=lambda view, context: view.has("indices") and view.bound("indices").constant is None,
        effect="corrupts",
        message="gather_nd with indices only known at run time returned slice 0 for some shapes",
        fix="make the indices constant, or use gather or gather_along_axis",
        source="microsoft/onnxruntime pull request 28598; which shapes and which unit is not published",
        confidence="anecdotal",
        applies_to=(Example("gather_nd", {"x": x, "indices": int32(5, 1)}),),
        negative_examples=(Example("gather_nd", {"x": x, "indices": weight(2, 1, dtype=DType.INT32)}),),
    )


_LONG = _attention((1, 8, 128, 512))
_ON_26_6 = Scope(since=(26, 5), before=(27, 0))

RULES: tuple[Rule, ...] = (
    _transposed(NEURAL_ENGINE, "ne"),
    _transposed(GPU, "gpu"),
    _transposed(CPU, "cpu"),
    _looked_up(NEURAL_ENGINE, "ne"),
    _looked_up(GPU, "gpu"),
    _looked_up(CPU, "cpu"),
    Rule(
        id="ne-attention-mask",
        unit=NEURAL_ENGINE,
        ops=(_ATTENTION,),
        when=lambda view, context: view.has("attn_mask"),
        effect="corrupts",
        message="the Neural Engine ignores the mask of a fused attention: every query attends to every key",
        fix="write the attention as matmul, add, softmax and matmul: leave"
        " common::fuse_attention_to_sdpa out of the pass pipeline, or convert for iOS 17",
        source=f"{GEMMA_CHAT} (M4 Pro, macOS 27), where masks of numbers and of booleans were ignored",
        confidence="measured",
        scope=Scope(since=(27, 0)),
        applies_to=(Example(_ATTENTION, _attention((1, 8, 128, 64), attn_mask=fp16(1, 1, 128, 128))),),
        negative_examples=(Example(_ATTENTION, _attention((1, 8, 128, 64))),),
    ),
    Rule(
        id="cpu-fused-attention",
        unit=CPU,
        ops=(_ATTENTION,),
        when=_several_queries,
        effect="crashes",
        message="a fused attention of several queries in float16, next to other operations, ended the app on"
        " the CPU (BNNS): {detail}",
        fix="write the attention as matmul, add, softmax and matmul, or load with CPU_AND_GPU",
        source=f"{GEMMA_CHAT} (M4 Pro, macOS 26.5.2 and 26.6.2); limits between the published sizes are"
        " inferred",
        confidence="measured",
        scope=_ON_26_6,
        applies_to=(
            Example(_ATTENTION, _LONG, chip="m4-pro", os="26.6"),
            Example(_ATTENTION, _attention((1, 8, 64, 128)), chip="m4-pro", os="26.6"),
        ),
        negative_examples=(
            Example(_ATTENTION, _attention((1, 8, 64, 64)), chip="m4-pro", os="26.6"),
            Example(_ATTENTION, _attention((1, 8, 112, 112)), chip="m4-pro", os="26.6"),
            Example(_ATTENTION, _LONG | {"query": fp16(1, 8, 1, 512)}, chip="m4-pro", os="26.6"),
            Example(
                _ATTENTION,
                dict.fromkeys(("query", "key", "value"), fp32(1, 8, 128, 512)),
                chip="m4-pro",
                os="26.6",
            ),
        ),
    ),
    Rule(
        id="cpu-dilated-groups",
        unit=CPU,
        ops=("conv",),
        when=_dilated_groups,
        effect="crashes",
        message="dilated convolutions of sequences with groups ended the app: {detail}",
        fix="split the groups into convolutions of their own, or drop the dilation",
        source="apple/coremltools issue 2574 and pytorch/executorch issue 11688 (M1 Pro, macOS 15); that the"
        " CPU ran so small a layer is inferred",
        confidence="measured",
        scope=Scope(chips=("m1",), since=(18, 0)),
        applies_to=(
            Example(
                "conv",
                {"x": fp16(2, 16, 11), "weight": weight(4, 8, 6), "groups": 2, "dilations": [2]},
                chip="m1-pro",
                os="15",
            ),
        ),
        negative_examples=(
            Example(
                "conv",
                {"x": fp16(2, 16, 11), "weight": weight(4, 16, 6), "dilations": [2]},
                chip="m1-pro",
                os="15",
            ),
            Example(
                "conv", {"x": fp16(2, 16, 11), "weight": weight(4, 8, 6), "groups": 2}, chip="m1-pro", os="15"
            ),
        ),
    ),
    Rule(
        id="gpu-recurrent-on-m5",
        unit=GPU,
        ops=(Trait.RECURRENCE,),
        when=always,
        effect="crashes",
        message='recurrent layers ended the app on the GPU of M5 from macOS 26.5 on ("JIT not supported")',
        fix="load the model with compute units CPU_AND_NE or CPU_ONLY there",
        source=f"{FLUID_AUDIO} (667, 818)",
        confidence="measured",
        scope=Scope(chips=("m5",), since=(26, 5)),
        applies_to=(
            Example(
                "lstm",
                {"x": fp16(16, 1, 64)},
                outputs=(fp16(16, 1, 64), fp16(1, 64), fp16(1, 64)),
                chip="m5",
                os="26.5",
            ),
        ),
    ),
)

_PRODUCT = Example("matmul", {"x": fp16(12, 4, 16, 32), "y": fp16(12, 4, 32, 16)})
_ONE = Example("matmul", {"x": fp16(1, 12, 16, 32), "y": fp16(1, 12, 32, 16)})
_GLOBAL = Example(_ATTENTION, _LONG)
_SLIDING = Example(_ATTENTION, _attention((1, 8, 128, 256)))


def _written_out(product: Example, batch: int, heads: int) -> tuple[Example, ...]:
    return (
        product,
        Example("add", {"x": Result(0), "y": fp16(1, 1, 16, 16)}),
        Example("softmax", {"x": Result(1), "axis": -1}),
        Example("matmul", {"x": Result(2), "y": fp16(batch, heads, 16, 32)}),
    )


GRAPH_RULES: tuple[GraphRule, ...] = (
    GraphRule(
        id="gpu-attention-of-many",
        unit=GPU,
        find=_many_attentions,
        effect="corrupts",
        message="the GPU of macOS 26.2 computes fused attention wrongly for ten elements or more: {detail}",
        fix="predict nine elements at most at once, or load with CPU_AND_NE",
        source="apple/coremltools issue 2650 (macOS 26.2): product, bias, softmax, product; that attention"
        " without a bias and the operation itself are concerned is inferred",
        confidence="measured",
        ops=("softmax", _ATTENTION),
        scope=Scope(since=(26, 2), before=(26, 3)),
        examples=(
            GraphExample(ops=_written_out(_PRODUCT, 12, 4), hits=(2,), os="26.2"),
            GraphExample(ops=_written_out(_ONE, 1, 12), os="26.2"),
            GraphExample(ops=(Example(_ATTENTION, _attention((10, 4, 16, 32))),), hits=(0,), os="26.2"),
        ),
    ),
    GraphRule(
        id="ne-large-attentions",
        unit=NEURAL_ENGINE,
        find=_large_attentions,
        effect="fails",
        message="the Neural Engine's compiler fails on two fused attentions with large heads, often without"
        " an error: {detail}",
        core_ml="live input tensor not used in network",
        fix="write these attentions as matmul, add, softmax and matmul",
        source=f"{GEMMA_CHAT} (M4 Pro, macOS 26.5.2 and 26.6.2): heads of 512 fail, 256 do not",
        confidence="measured",
        ops=(_ATTENTION,),
        scope=_ON_26_6,
        examples=(
            GraphExample(ops=(_GLOBAL, _GLOBAL), hits=(1,), chip="m4-pro", os="26.5"),
            GraphExample(ops=(_GLOBAL, _SLIDING, _SLIDING), chip="m4-pro", os="26.5"),
        ),
    ),
    GraphRule(
        id="ne-nan",
        unit=NEURAL_ENGINE,
        find=_nan,
        effect="corrupts",
        message="NaN does not survive on the Neural Engine, where it becomes a large number: {detail}",
        fix="pass a mask as an input of its own, or use a large number such as -40000 for what is missing",
        source=f"{MOBIUS}: candidates for the Neural Engine; {GUIDE_PITFALLS}",
        confidence="measured",
        ops=EVERY_OP,
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
    GraphRule(
        id="cpu-enumerated-shapes",
        unit=CPU,
        find=_enumerated,
        effect="crashes",
        message="with enumerated shapes, operations on the CPU ended the app on iOS 27.0 and macOS 27.0.1"
        " (BNNS): {detail}",
        fix="make a model with fixed shapes for each size, or functions of one model, and keep everything on"
        " one unit",
        source=f"soniqo/speech-swift pull request 290 (enumerated shapes on the CPU); {FLUID_AUDIO} (889:"
        " BNNS on iOS 27.0)",
        confidence="anecdotal",
        ops=EVERY_OP,
        scope=Scope(since=(27, 0)),
        examples=(
            GraphExample(
                ops=(Example("relu", {"x": fp16(1, 8)}),),
                hits=(0,),
                facts=ProgramFacts(flexible_inputs={"x": "enumerated"}),
            ),
            GraphExample(
                ops=(Example("relu", {"x": fp16(1, 8)}),),
                facts=ProgramFacts(flexible_inputs={"x": "range"}),
            ),
        ),
    ),
)
