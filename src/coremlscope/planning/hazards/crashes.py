"""Forms that end the app where they run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, UNITS
from coremlscope.model.ir import DType, TensorType, Value
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.hazards.hazard import GraphPattern, KnownHazard, Lines, OpPattern
from coremlscope.planning.hazards.values import ATTENTION, attention
from coremlscope.planning.patterns.forms import always
from coremlscope.planning.patterns.publications import FLUID_AUDIO, GEMMA_CHAT
from coremlscope.planning.patterns.rule import (
    EVERY_OP,
    Example,
    GraphContext,
    GraphExample,
    ProgramFacts,
    Result,
    RuleContext,
    Scope,
    fp16,
    fp32,
    int32,
    weight,
)
from coremlscope.planning.patterns.weights import WEIGHTED, packed_weights

#: Keys times head: 64 times 64 and 8 times 512 ran, 64 times 128 ended the app. 112 times 112 ran, so both
#: are taken to be whole rows of 64 bytes; that is inferred.
_LARGE_KEYS, _ROW = 8192, 32


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


def _vector(view: OpView, context: RuleContext) -> str:
    ranks = {name: len(view.shape(name)) for name in ("x", "y")}
    if ranks["x"] == 1 and ranks["y"] == 2:  # coremltools' own tests run it on Macs.
        return ""
    return next((f"{name} has one dimension" for name, rank in ranks.items() if rank == 1), "")


def _all_elements(view: OpView, context: RuleContext) -> str:
    shape = view.static_shape("x")
    rows = math.prod(shape[:-1])
    is_default = view.integer("axis", -1) == -1 and not view.flag("keep_dims", False)
    return f"it returns {rows} positions, one of each row" if is_default and rows > 1 else ""


def _divides_integers(view: OpView, context: RuleContext) -> bool:
    is_known = any(view.bound(name).constant is not None for name in ("x", "y"))
    return not is_known and view.type("x").dtype is DType.INT32


def _norm(*shape: int) -> dict[str, object]:
    return {"x": fp16(*shape), "mean": weight(shape[1]), "variance": weight(shape[1])}


def _enumerated(context: GraphContext) -> Mapping[str, str]:
    names = [name for name, kind in context.facts.flexible_inputs.items() if kind == "enumerated"]
    return {id_: ", ".join(names) for id_, _ in context.ops} if names else {}


def _scaled_palettes(context: GraphContext) -> Mapping[str, str]:
    """Weights from a palette with a scale for each output (per_channel_scale), on the weight or its table."""
    return {id_: "" for id_, maker in _unpacked(context) if _is_scaled_palette(maker, context)}


def _unpacked(context: GraphContext) -> Iterator[tuple[str, OpView]]:
    kinds = ("constexpr_lut_to_dense", "constexpr_blockwise_shift_scale")
    return ((id_, maker) for id_, _, maker in packed_weights(context, *kinds))


def _is_scaled_palette(maker: OpView, context: GraphContext) -> bool:
    is_palette = maker.op.type == "constexpr_lut_to_dense"
    given = maker.op.inputs.get("lut" if is_palette else "data", ())
    source = context.producers.get(given[0].name) if given and isinstance(given[0], Value) else None
    inner = "constexpr_blockwise_shift_scale" if is_palette else "constexpr_lut_to_dense"
    return source is not None and source.op.type == inner


def _unpacking(kind: str, unpacked: TensorType, **packed: object) -> Example:
    return Example(kind, packed, outputs=(unpacked,))


_INDICES, _DENSE = weight(64, 64, 3, 3, dtype=DType.UINT8), fp16(64, 64, 3, 3)
_PALETTE = _unpacking("constexpr_lut_to_dense", _DENSE, indices=_INDICES, lut=weight(1, 1, 1, 1, 16, 1))


def _conv(place: int) -> Example:
    return Example("conv", {"x": fp16(1, 64, 32, 32), "weight": Result(place)})


_SCALED_PALETTE = (
    _PALETTE,
    _unpacking("constexpr_blockwise_shift_scale", _DENSE, data=Result(0), scale=weight(64, 1, 1, 1)),
    _conv(1),
)
_SCALED_TABLE = (
    _unpacking(
        "constexpr_blockwise_shift_scale",
        fp16(16, 1, 1, 1, 16, 1),
        data=weight(16, 1, 1, 1, 16, 1, dtype=DType.INT8),
        scale=weight(16, 1, 1, 1, 1, 1),
    ),
    _unpacking("constexpr_lut_to_dense", _DENSE, indices=_INDICES, lut=Result(0)),
    _conv(1),
)
_LONG = attention((1, 8, 128, 512))
_GROUPED = {"x": fp16(2, 16, 11), "weight": weight(4, 8, 6), "groups": 2, "dilations": [2]}

HAZARDS: tuple[KnownHazard, ...] = (
    KnownHazard(
        id="product-with-vector",
        kind="crash",
        units=UNITS,
        text="a matrix product with a one-dimensional operand returns another shape than declared, and ended"
        " the app: {detail}",
        fix="expand the vector to a matrix before the product (unsqueeze), and squeeze the result",
        source="apple/coremltools issue 2263 and pull request 2719; microsoft/onnxruntime pull request 21186",
        confidence="measured",
        pattern=OpPattern(
            ops=("matmul",),
            when=_vector,
            accepts=(
                Example("matmul", {"x": fp16(4), "y": fp16(10, 4, 3)}),
                Example("matmul", {"x": fp16(10, 3, 4), "y": weight(4)}),
            ),
            rejects=(
                Example("matmul", {"x": fp16(1, 4), "y": fp16(10, 4, 3)}),
                Example("matmul", {"x": fp16(4), "y": weight(4, 3)}),
            ),
        ),
    ),
    KnownHazard(
        id="fused-attention",
        kind="crash",
        units=(CPU,),
        text="a fused attention of several queries in float16, next to other operations, ended the app on"
        " the CPU (BNNS): {detail}",
        fix="write the attention as matmul, add, softmax and matmul, or load with CPU_AND_GPU",
        source=f"{GEMMA_CHAT} (M4 Pro, macOS 26.5.2 and 26.6.2); limits between the published sizes are"
        " inferred",
        confidence="measured",
        scope=Scope(since=(26, 5), before=(27, 0)),
        pattern=OpPattern(
            ops=(ATTENTION,),
            when=_several_queries,
            accepts=(
                Example(ATTENTION, _LONG, chip="m4-pro", os="26.6"),
                Example(ATTENTION, attention((1, 8, 64, 128)), chip="m4-pro", os="26.6"),
            ),
            rejects=(
                Example(ATTENTION, attention((1, 8, 64, 64)), chip="m4-pro", os="26.6"),
                Example(ATTENTION, attention((1, 8, 112, 112)), chip="m4-pro", os="26.6"),
                Example(ATTENTION, _LONG | {"query": fp16(1, 8, 1, 512)}, chip="m4-pro", os="26.6"),
                Example(
                    ATTENTION,
                    dict.fromkeys(("query", "key", "value"), fp32(1, 8, 128, 512)),
                    chip="m4-pro",
                    os="26.6",
                ),
            ),
        ),
    ),
    KnownHazard(
        id="attention-of-rank-3",
        kind="crash",
        units=(GPU,),
        text="a fused attention of three dimensions ended the app on the GPU of macOS 27.2: {detail}",
        fix="load with CPU_AND_NE, or convert again with queries of four dimensions (batch, heads, length,"
        " size)",
        source="MochiDiffusion issue 521 (macOS 27.2 beta)",
        confidence="anecdotal",
        scope=Scope(since=(27, 2)),
        pattern=OpPattern(
            ops=(ATTENTION,),
            when=lambda view, context: f"rank {rank}" if (rank := len(view.shape("query"))) < 4 else "",
            accepts=(Example(ATTENTION, attention((8, 128, 64)), os="27.2"),),
            rejects=(Example(ATTENTION, attention((1, 8, 128, 64)), os="27.2"),),
        ),
        lines=Lines(
            texts=("should match old volume", "scaleddotproductattentionophandler"),
            examples=(
                "New volume: 177408 should match old volume: 59136",
                "GPU::ScaledDotProductAttentionOpHandler::encodeNDArrayOp",
            ),
            negative_examples=("the old volume was mounted",),
        ),
    ),
    KnownHazard(
        id="dilated-groups",
        kind="crash",
        units=UNITS,
        text="dilated convolutions of sequences with groups ended the app: {detail}",
        fix="split the groups into convolutions of their own, or drop the dilation",
        source="apple/coremltools issue 2574 and pytorch/executorch issue 11688 (M1 Pro, macOS 15, each"
        " time); which unit ran it is not published",
        confidence="measured",
        scope=Scope(chips=("m1",)),
        pattern=OpPattern(
            ops=("conv",),
            when=_dilated_groups,
            accepts=(Example("conv", _GROUPED, chip="m1-pro", os="15"),),
            rejects=(
                Example(
                    "conv", {**_GROUPED, "weight": weight(4, 16, 6), "groups": 1}, chip="m1-pro", os="15"
                ),
                Example("conv", {**_GROUPED, "dilations": [1]}, chip="m1-pro", os="15"),
            ),
        ),
    ),
    KnownHazard(
        id="argmax-of-all",
        kind="crash",
        units=UNITS,
        text="an argmax over all elements, which converters write as one along the last axis, ended the app"
        " from time to time: {detail}",
        fix="name the axis (torch.argmax(x, dim=…, keepdim=True)), or flatten to one row before it",
        source="pytorch/executorch issue 11715 and pull request 19247 (M1 Pro); that the file of an argmax"
        " along the last axis of its own looks the same is inferred",
        confidence="anecdotal",
        scope=Scope(chips=("m1",)),
        pattern=OpPattern(
            ops=("reduce_argmax", "reduce_argmin"),
            when=_all_elements,
            accepts=(
                Example(
                    "reduce_argmax",
                    {"x": fp32(10, 10), "axis": -1, "keep_dims": False},
                    chip="m1-pro",
                    os="15",
                ),
            ),
            rejects=(
                Example(
                    "reduce_argmax",
                    {"x": fp32(10, 10), "axis": 1, "keep_dims": False},
                    chip="m1-pro",
                    os="15",
                ),
                Example(
                    "reduce_argmax",
                    {"x": fp32(1, 100), "axis": -1, "keep_dims": False},
                    chip="m1-pro",
                    os="15",
                ),
            ),
        ),
    ),
    KnownHazard(
        id="integer-floor-division",
        kind="crash",
        units=UNITS,
        text="a floor division of two int32 tensors that are only known at run time ended the app",
        fix="divide in float and take the floor: floor(x / y) of casts, and cast the result",
        source="pytorch/executorch issue 11714 (M1 Pro, each time); which unit ran it is not published",
        confidence="measured",
        scope=Scope(chips=("m1",)),
        pattern=OpPattern(
            ops=("floor_div",),
            when=_divides_integers,
            accepts=(Example("floor_div", {"x": int32(10, 10), "y": int32(10, 10)}, chip="m1-pro", os="15"),),
            rejects=(
                Example("floor_div", {"x": fp16(10, 10), "y": fp16(10, 10)}, chip="m1-pro", os="15"),
                Example("floor_div", {"x": int32(10, 10), "y": 2}, chip="m1-pro", os="15"),
            ),
        ),
    ),
    KnownHazard(
        id="batch-norm-of-rank-5",
        kind="crash",
        units=UNITS,
        text="a batch normalization of five dimensions, apart from convolutions, ended the app at times",
        fix="merge two axes before it (reshape) and split them behind it, or fold it into a convolution",
        source="pytorch/executorch issue 11701 (M1 Pro); which unit ran it is not published",
        confidence="measured",
        scope=Scope(chips=("m1",)),
        pattern=OpPattern(
            ops=("batch_norm",),
            when=lambda view, context: len(view.shape("x")) == 5,
            accepts=(Example("batch_norm", _norm(1, 3, 4, 4, 4), chip="m1-pro", os="15"),),
            rejects=(Example("batch_norm", _norm(1, 3, 4, 4), chip="m1-pro", os="15"),),
        ),
    ),
    KnownHazard(
        id="recurrent-on-m5",
        kind="crash",
        units=(GPU,),
        text='recurrent layers ended the app on the GPU of M5 from macOS 26.5 on ("JIT not supported")',
        fix="load the model with compute units CPU_AND_NE or CPU_ONLY there",
        source=f"{FLUID_AUDIO} (667, 818)",
        confidence="measured",
        scope=Scope(chips=("m5",), since=(26, 5)),
        lines=Lines(
            texts=("jit not supported",),
            examples=("MPSGraph RNN: JIT not supported",),
            negative_examples=("JIT supported",),
        ),
        pattern=OpPattern(
            ops=(Trait.RECURRENCE,),
            when=always,
            accepts=(
                Example(
                    "lstm",
                    {"x": fp16(16, 1, 64)},
                    outputs=(fp16(16, 1, 64), fp16(1, 64), fp16(1, 64)),
                    chip="m5",
                    os="26.5",
                ),
            ),
        ),
    ),
    KnownHazard(
        id="enumerated-shapes",
        kind="crash",
        units=(CPU,),
        text="with enumerated shapes, operations on the CPU ended the app on iOS 27.0 and macOS 27.0.1"
        " (BNNS): {detail}",
        fix="make a model with fixed shapes for each size, or functions of one model, and keep everything on"
        " one unit",
        source=f"soniqo/speech-swift pull request 290 (enumerated shapes on the CPU); {FLUID_AUDIO} (889:"
        " BNNS on iOS 27.0)",
        confidence="anecdotal",
        scope=Scope(since=(27, 0)),
        pattern=GraphPattern(
            ops=EVERY_OP,
            find=_enumerated,
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
    ),
    KnownHazard(
        id="scaled-palettes",
        kind="crash",
        units=(NEURAL_ENGINE, GPU),
        phase="load",
        text="weights from palettes with scales per channel ended the app on macOS 26, on the GPU and"
        " while loading for the Neural Engine",
        fix="palettize without enable_per_channel_scale",
        source="apple/coremltools pull request 2688 (M4, macOS 26.6.2)",
        confidence="anecdotal",
        lines=Lines(
            texts=("'mps.dequantize' op",),
            examples=("error: 'mps.dequantize' op operand #0 must be tensor",),
            negative_examples=("mps.dequantize",),
        ),
        scope=Scope(since=(26, 0), before=(27, 0)),
        pattern=GraphPattern(
            ops=(WEIGHTED,),
            find=_scaled_palettes,
            examples=(
                GraphExample(ops=_SCALED_PALETTE, hits=(2,), os="26"),
                GraphExample(ops=_SCALED_TABLE, hits=(2,), os="26"),
                GraphExample(ops=(_PALETTE, _conv(0)), os="26"),
            ),
        ),
    ),
)
