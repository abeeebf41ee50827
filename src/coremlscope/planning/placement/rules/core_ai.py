"""Core AI: which operations of `.aimodel` programs the Neural Engine, the GPU and the CPU run.

Core AI compiles with MPSGraph, and hands regions of the program to the compiler of the Neural Engine. The
rules of Apple's own guides for Core AI, and what was measured with Core AI, are in `OWN_RULES`. Beyond them,
Core AI uses the same Neural Engine and the same compiler as Core ML: limits of the hardware that were found
with Core ML apply as well, known less well, since they were not measured with Core AI.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.model.ir import DType, StateType, TensorType, Value, ValueType
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import always, describe, extents, run_time_tensors
from coremlscope.planning.patterns.publications import (
    APPLE_CORE_AI_GUIDE,
    COREAI_GUIDE,
    COREAI_ZOO,
    COREAI_ZOO_PARTITIONS,
    COREAI_ZOO_REGIONS,
    ULTRALYTICS_COREAI,
)
from coremlscope.planning.patterns.rule import (
    EVERY_OP,
    Example,
    GraphContext,
    GraphExample,
    GraphRule,
    ProgramFacts,
    Result,
    Rule,
    RuleContext,
    fp16,
    fp32,
    int32,
    tensor,
    weight,
)
from coremlscope.planning.patterns.weights import packed_weights
from coremlscope.planning.placement.rules.model import weights
from coremlscope.planning.placement.rules.neural_engine import (
    absent,
    generations,
    runs,
    shapes,
    tensors,
    windows,
)

#: Booleans are masks, which comparisons pass to selections.
_TAKEN = frozenset(
    {DType.FP16, DType.FP8_E4M3, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.BOOL}
)
_REFUSED = frozenset(set(DType) - _TAKEN)
_HIGHEST_RANK = 5
#: Bytes to which the last axis is aligned.
_ALIGNMENT = 64
#: Units on which tensors without elements stop the app, with the prefixes of their rules.
_STOPPED: tuple[tuple[str, ComputeUnit], ...] = (("ne", NEURAL_ENGINE), ("gpu", GPU))
_FOUR_BITS = frozenset({DType.INT4, DType.UINT4})
_WEIGHTED = (Trait.CONVOLUTION | Trait.LINEAR | Trait.MATRIX_PRODUCT,)


def _element_type(view: OpView, context: RuleContext) -> str:
    return describe(run_time_tensors(view), _REFUSED)


def _rank(view: OpView, context: RuleContext) -> str:
    found = ((name, type_.rank) for name, type_ in run_time_tensors(view))
    return next((f"{name} has rank {rank}" for name, rank in found if (rank or 0) > _HIGHEST_RANK), "")


def _declared(view: OpView) -> Iterator[tuple[str, ValueType]]:
    """The types that the file declares, before shapes of inputs are chosen."""
    for name, arguments in view.op.inputs.items():
        yield from ((name, one.type) for one in arguments if isinstance(one, Value))
    yield from (("result", value.type) for value in view.op.outputs)


def _dynamic(view: OpView, context: RuleContext) -> str:
    for name, type_ in _declared(view):
        inner = type_.wrapped if isinstance(type_, StateType) else type_
        if isinstance(inner, TensorType) and not inner.is_static:
            return f"{name} is {extents(inner)}" if inner.shape else f"{name} has an unknown rank"
    return ""


def _four_bits(context: GraphContext) -> dict[str, str]:
    kinds = ("constexpr_blockwise_shift_scale", "constexpr_sparse_blockwise_shift_scale")
    types = ((id_, maker.type("data").dtype) for id_, _, maker in packed_weights(context, *kinds))
    return {id_: f"the weight is {dtype.value} with scales" for id_, dtype in types if dtype in _FOUR_BITS}


def _strides(view: OpView) -> list[int]:
    return [int(stride) for stride in view.integers("strides", [1])]


def _other_factors(stride: int) -> int:
    """Returns the stride divided by all its factors 2 and 3."""
    for factor in (2, 3):
        while stride > 1 and stride % factor == 0:
            stride //= factor
    return stride


def _stride(view: OpView, context: RuleContext) -> str:
    found = [stride for stride in _strides(view) if _other_factors(stride) != 1]
    return f"the stride is {found[0]}" if found else ""


def _empty(view: OpView, context: RuleContext) -> str:
    for name, type_ in run_time_tensors(view):
        if 0 in (type_.shape or ()):
            return f"{name} is {extents(type_)}"
    return ""


def _unaligned(view: OpView, context: RuleContext) -> str:
    type_ = view.output_type()
    last = (type_.shape or (None,))[-1]
    if last is None or type_.dtype not in _TAKEN:
        return ""
    size = last * type_.dtype.bits // 8
    if last == 1:
        times = _ALIGNMENT // max(size, 1)
        return f"the last axis of {extents(type_)} is 1, which takes {times} times the memory"
    return f"the last axis of {extents(type_)} has {size} bytes" if size % _ALIGNMENT else ""


def _halved(view: OpView, context: RuleContext) -> bool:
    return view.output_type().dtype is DType.FP16


_FP16_CONV = Example("conv", {"x": fp16(1, 64, 32, 32), "weight": weight(64, 64, 3, 3)})
_LINEAR = Example("linear", {"x": fp16(1, 128, 64), "weight": weight(64, 64)})

#: The rules that were published for Core AI.
OWN_RULES: tuple[Rule, ...] = (
    Rule(
        id="ne-core-ai-element-type",
        runtime="Core AI",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_element_type,
        message="Core AI gives the Neural Engine only tensors of fp16, fp8 (E4M3) and integers of 8 and 16"
        " bits: {detail}",
        fix="convert the module with .half(), keep float literals and softmax(dtype=torch.float32) out of it,"
        " and pass indices from the app",
        source=f"{APPLE_CORE_AI_GUIDE}; {COREAI_ZOO_REGIONS} (M4: an fp32 program has no region on the Neural"
        ' Engine, in fp16 it has one); Core AI\'s own message is "Incompatible element type for ANE"',
        confidence="measured",
        applies_to=(
            Example("conv", {"x": fp32(1, 64, 32, 32), "weight": weight(64, 64, 3, 3)}),
            Example("gather", {"x": fp16(1000, 64), "indices": int32(1, 8), "axis": 0}),
            Example("cast", {"x": fp32(1, 64), "dtype": "fp16"}),
        ),
        negative_examples=(_FP16_CONV, Example("relu", {"x": tensor(DType.INT8, 1, 64)})),
    ),
    Rule(
        id="ne-core-ai-rank",
        runtime="Core AI",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_rank,
        message="the Neural Engine takes tensors of rank 5 at most: {detail}",
        fix="fold dimensions with reshape before the operation",
        source=APPLE_CORE_AI_GUIDE,
        confidence="documented",
        applies_to=(Example("relu", {"x": fp16(1, 2, 2, 2, 2, 64)}),),
        negative_examples=(Example("relu", {"x": fp16(1, 2, 2, 2, 64)}),),
    ),
    Rule(
        id="ne-core-ai-dynamic",
        runtime="Core AI",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_dynamic,
        message="Core AI runs only static shapes on the Neural Engine: {detail}",
        fix="convert a function for each shape, or use set_static_shape_config",
        source=APPLE_CORE_AI_GUIDE,
        confidence="documented",
        applies_to=(Example("relu", {"x": fp16(1, None, 64)}),),
        negative_examples=(Example("relu", {"x": fp16(1, 8, 64)}),),
    ),
    Rule(
        id="ne-core-ai-sort",
        runtime="Core AI",
        unit=NEURAL_ENGINE,
        ops=(Trait.SORTING,),
        when=always,
        message="Core AI has no top-k: it becomes sort and argsort of a whole axis, which do not run on the"
        " Neural Engine, and crossing over costs 0.6 to 1.75 ms, whatever the size",
        fix="return the scores and take the top k in the app",
        source=f"{COREAI_ZOO_PARTITIONS} (iPhone 17 Pro; the unit is inferred from times)",
        confidence="measured",
        applies_to=(
            Example("topk", {"x": fp16(1, 8400), "k": 300, "axis": -1}),
            Example("argsort", {"x": fp16(1, 8400), "axis": -1}),
        ),
        negative_examples=(),
    ),
    Rule(
        id="ne-core-ai-stride",
        runtime="Core AI",
        unit=NEURAL_ENGINE,
        ops=(Trait.CONVOLUTION | Trait.POOLING,),
        when=_stride,
        message="strides on the Neural Engine are products of 2 and 3: {detail}",
        fix="embed patches by reshape, transpose and a 1x1 convolution",
        source=APPLE_CORE_AI_GUIDE,
        confidence="documented",
        applies_to=(
            Example(
                "conv", {"x": fp16(1, 3, 224, 224), "weight": weight(192, 3, 14, 14), "strides": [14, 14]}
            ),
        ),
        negative_examples=(
            Example(
                "conv", {"x": fp16(1, 3, 224, 224), "weight": weight(192, 3, 16, 16), "strides": [16, 16]}
            ),
        ),
    ),
    *(
        Rule(
            id=f"{prefix}-core-ai-empty",
            runtime="Core AI",
            unit=unit,
            ops=EVERY_OP,
            when=_empty,
            message="Core AI stops the app on the Neural Engine and the GPU if a tensor has no elements:"
            " {detail}",
            fix="leave such operations out of the program",
            source=ULTRALYTICS_COREAI,
            confidence="measured",
            applies_to=(Example("relu", {"x": fp16(1, 0, 64)}),),
            negative_examples=(Example("relu", {"x": fp16(1, 1, 64)}),),
        )
        for prefix, unit in _STOPPED
    ),
    Rule(
        id="ne-core-ai-linear",
        runtime="Core AI",
        unit=NEURAL_ENGINE,
        ops=("linear",),
        when=_halved,
        effect="advises",
        message="Apple advises Conv2d with a 1x1 kernel instead of Linear (broadcasting_batch_matmul):"
        " convolutions add up in float32, and matrix products can leave the Neural Engine",
        fix="replace nn.Linear by nn.Conv2d with a 1x1 kernel, over tensors of the shape B, C, 1, S",
        source=f"{APPLE_CORE_AI_GUIDE}; {COREAI_ZOO_REGIONS} (an encoder with Linear ran as one region)",
        confidence="documented",
        applies_to=(_LINEAR,),
        negative_examples=(Example("linear", {"x": fp32(1, 128, 64), "weight": weight(64, 64)}),),
    ),
    Rule(
        id="ne-core-ai-alignment",
        runtime="Core AI",
        unit=NEURAL_ENGINE,
        ops=_WEIGHTED,
        when=_unaligned,
        effect="advises",
        message="the Neural Engine aligns the last axis to 64 bytes: {detail}",
        fix="use tensors of the shape B, C, 1, S with a multiple of 32 fp16 elements in the last axis",
        source=APPLE_CORE_AI_GUIDE,
        confidence="documented",
        applies_to=(
            Example("conv", {"x": fp16(1, 64, 30, 30), "weight": weight(64, 64, 1, 1)}),
            Example("conv", {"x": fp16(1, 64, 1, 1), "weight": weight(64, 64, 1, 1)}),
        ),
        negative_examples=(Example("conv", {"x": fp16(1, 64, 1, 32), "weight": weight(64, 64, 1, 1)}),),
    ),
    Rule(
        id="ne-core-ai-silu",
        runtime="Core AI",
        unit=NEURAL_ENGINE,
        ops=("silu",),
        when=_halved,
        effect="advises",
        message="Apple warns that silu becomes three operations in float32, which leave the Neural Engine;"
        " a network with silu was still twice as fast as on the GPU",
        fix="write x * torch.sigmoid(x)",
        source=f"{APPLE_CORE_AI_GUIDE}; {COREAI_ZOO_PARTITIONS}",
        confidence="documented",
        applies_to=(Example("silu", {"x": fp16(1, 64, 32, 32)}),),
        negative_examples=(Example("silu", {"x": fp32(1, 64, 32, 32)}),),
    ),
    Rule(
        id="gpu-core-ai-runs",
        runtime="Core AI",
        unit=GPU,
        ops=EVERY_OP,
        when=always,
        effect="runs",
        message="the GPU runs every operation of Core AI, in float32 and with dynamic shapes too",
        source=f"{APPLE_CORE_AI_GUIDE}; {COREAI_ZOO}",
        confidence="documented",
        applies_to=(Example("relu", {"x": fp32(1, None, 64)}),),
    ),
    Rule(
        id="cpu-core-ai-runs",
        runtime="Core AI",
        unit=CPU,
        ops=EVERY_OP,
        when=lambda view, context: view.op.type != "metal4_kernel",
        effect="runs",
        message="the CPU runs every operation of Core AI except kernels written in Metal",
        source=f"Apple's documentation of Core AI; {COREAI_GUIDE}",
        confidence="documented",
        applies_to=(Example("relu", {"x": fp32(1, 64)}),),
        negative_examples=(Example("metal4_kernel", {"x": fp16(1, 64)}, outputs=(fp16(1, 64),)),),
    ),
)

#: Rules for Core ML that concern its own programs, or that Core AI's own ones replace.
_OF_CORE_ML = frozenset(
    {"ne-rank", "ne-unknown-extent", "ne-computed-shape", "ne-gather-indices", "ne-gather-int32"}
    | {
        "ne-gather-uint16",
        "ne-slice-begin",
        "ne-runs-buffers",
        "ne-layer-norm-enumerated",
        "ne-logical-and-before-27",
    }
)


def _inherited() -> Iterator[Rule]:
    """The rules of the Neural Engine's hardware and compiler, known from Core ML."""
    families = (shapes, absent, generations, windows, tensors, runs)
    for rule in (rule for family in families for rule in family.RULES if rule.id not in _OF_CORE_ML):
        weaker = "by analogy" if rule.confidence in ("measured", "documented") else rule.confidence
        source = f"{rule.source} (with Core ML; Core AI uses the same Neural Engine)"
        yield replace(rule, runtime="Core AI", confidence=weaker, source=source, core_ml="")


def _scaled(bits: DType) -> tuple[Example, ...]:
    data = {"data": weight(64, 64, dtype=bits), "scale": weight(64, 2)}
    return (
        Example("constexpr_blockwise_shift_scale", data, outputs=(fp16(64, 64),)),
        Example("linear", {"x": fp16(1, 8, 64), "weight": Result(0)}, facts=_FACTS),
    )


_FACTS = ProgramFacts(runtime="Core AI")

#: The rules about whole functions that were published for Core AI.
OWN_GRAPH_RULES: tuple[GraphRule, ...] = (
    GraphRule(
        id="ne-core-ai-four-bits",
        runtime="Core AI",
        unit=NEURAL_ENGINE,
        find=_four_bits,
        effect="fails",
        message="the compiler of the Neural Engine takes no weights of 4 bits with scales: {detail}",
        fix="palettise weights for the Neural Engine (kmeans_palettization_config)",
        source=f"{COREAI_ZOO_REGIONS} (M4: no region is left); apple/coreai-models issue 205",
        confidence="measured",
        ops=_WEIGHTED,
        examples=(
            GraphExample(ops=_scaled(DType.INT4), hits=(1,), facts=_FACTS),
            GraphExample(ops=_scaled(DType.INT8), facts=_FACTS),
        ),
    ),
)

#: The rules that plans of Core AI apply.
RULES: tuple[Rule, ...] = (*OWN_RULES, *_inherited())
GRAPH_RULES: tuple[GraphRule, ...] = (
    *OWN_GRAPH_RULES,
    *(replace(rule, runtime="Core AI") for rule in weights.GRAPH_RULES if rule.id == "ne-palette-stride"),
)
