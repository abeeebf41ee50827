"""Forms with which a model does not load, does not load for a unit, or leaves it without an error."""

from __future__ import annotations

from collections.abc import Mapping

from coremlscope.base.units import format_bytes
from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.model.ir import DType
from coremlscope.ops.view import OpView
from coremlscope.ops.window import Window
from coremlscope.planning.hazards.hazard import GraphPattern, KnownHazard, OpPattern
from coremlscope.planning.hazards.values import ATTENTION, attention
from coremlscope.planning.patterns.forms import extents, is_fixed, kernel
from coremlscope.planning.patterns.publications import APPLE_SIZES, COREML_LLM, GEMMA_CHAT, MOBIUS
from coremlscope.planning.patterns.rule import (
    Example,
    GraphContext,
    GraphExample,
    ProgramFacts,
    RuleContext,
    Scope,
    boolean,
    fp16,
    int32,
    weight,
)

_GIGABYTE = 10**9
_MOST_STATES = 2
#: The last axis of a state is a multiple of it.
_ROW = 32
#: The longest axis of the Neural Engine.
_LONGEST = 16384
#: Heads of 512 failed and heads of 256 did not; between them nothing is published.
_LARGE_HEAD = 256


def _endless(view: OpView, context: RuleContext) -> str:
    """The published forms: strides of 5 and 7 of images, and a stride of 6 along a long sequence."""
    strides = view.integers("strides", [1])
    is_long = len(strides) == 1 and strides[0] == 6 and (view.static_shape("x")[-1] > _LONGEST)
    is_square = len(strides) == 2 and set(strides) in ({5}, {7})
    return f"the strides are {'x'.join(map(str, strides))}" if is_long or is_square else ""


def _integers(view: OpView, context: RuleContext) -> str:
    name = "weight" if view.op.type == "linear" else "y"
    if view.type("x").dtype is not DType.INT32 or not (is_fixed(view, name) or is_fixed(view, "x")):
        return ""
    return extents(view.output_type())


def _uneven_state(view: OpView, context: RuleContext) -> str:
    shape = view.shape("input")
    width = shape[-1] if shape else None
    if not width or width % _ROW == 0:
        return ""
    return f"{extents(view.type('input'))}, so pad to {-(-width // _ROW) * _ROW}"


def _unfolded(view: OpView, context: RuleContext) -> str:
    """For a dilated kernel the compiler expands the row to (width + padding) x dilation."""
    sizes, shape = kernel(view), view.shape("x")
    window = Window.of(view, sizes)
    dilation, width = window.dilations[-1], shape[-1]
    padding = window.padding(len(sizes) - 1, width)
    if dilation == 1 or width is None or padding is None:
        return ""
    spread = (width + max(padding) // dilation) * dilation
    if not width <= _LONGEST < spread:
        return ""
    return f"{width} elements expand to {spread}, and {_LONGEST} is the limit"


def _large_attentions(context: GraphContext) -> Mapping[str, str]:
    large = [
        (id_, head)
        for id_, view in context.ops
        if view.op.type == ATTENTION and (head := view.shape("query")[-1] or 0) > _LARGE_HEAD
    ]
    return {large[-1][0]: f"{len(large)} with heads of {large[-1][1]}"} if len(large) > 1 else {}


def _first(context: GraphContext, detail: str) -> Mapping[str, str]:
    """Reports what concerns the whole function at its first operation."""
    return {context.ops[0][0]: detail} if context.ops else {}


def _states(context: GraphContext) -> Mapping[str, str]:
    count = context.facts.states
    return _first(context, f"{count} states") if count > _MOST_STATES else {}


def _large_on_ios(context: GraphContext) -> Mapping[str, str]:
    size = context.facts.weights_bytes
    if context.device.os.platform != "iOS" or size <= _GIGABYTE:
        return {}
    return _first(context, f"the weights take {format_bytes(size)}")


def _conv(size: int, stride: int) -> dict[str, object]:
    return {
        "x": fp16(1, 64, 32, 32),
        "weight": weight(64, 64, size, size),
        "pad_type": "same",
        "strides": [stride, stride],
    }


def _long_conv(length: int) -> dict[str, object]:
    return {"x": fp16(1, 22, length), "weight": weight(256, 22, 12), "strides": [6]}


def _dilated(width: int) -> dict[str, object]:
    return {
        "x": fp16(1, 27, 1, width),
        "weight": weight(27, 27, 1, 3),
        "dilations": [1, 2],
        "pad_type": "same",
    }


def _read(width: int) -> Example:
    shape = fp16(1, 8, 480, width)
    return Example("read_state", {"input": shape}, outputs=(shape,), os="15.2")


_RELU = Example("relu", {"x": fp16(1, 8)})
_GLOBAL = Example(ATTENTION, attention((1, 8, 128, 512)))
_SLIDING = Example(ATTENTION, attention((1, 8, 128, 256)))
_MATRIX = weight(8, 8, dtype=DType.INT32)

HAZARDS: tuple[KnownHazard, ...] = (
    KnownHazard(
        id="integer-product",
        kind="refused",
        phase="load",
        text="a matrix product of int32 by a constant does not load (execution plan, error code -14):"
        " {detail}",
        fix="compute the product in float, and cast the result",
        source="apple/coremltools issue 2575; pytorch/executorch issue 11691",
        confidence="measured",
        pattern=OpPattern(
            ops=("linear", "matmul"),
            when=_integers,
            accepts=(
                Example("linear", {"x": int32(8, 8), "weight": _MATRIX}),
                Example("matmul", {"x": int32(8, 8), "y": _MATRIX}),
            ),
            rejects=(
                Example("matmul", {"x": int32(8, 8), "y": int32(8, 8)}),
                Example("linear", {"x": fp16(8, 8), "weight": weight(8, 8)}),
            ),
        ),
    ),
    KnownHazard(
        id="endless-compile",
        kind="endless load",
        phase="load",
        units=(NEURAL_ENGINE,),
        text="loading a model with such a convolution for the Neural Engine did not end: {detail}",
        fix="load with CPU_AND_GPU, convert with compute_precision=ct.precision.FLOAT32, or use two"
        " convolutions with strides of 2 to 4",
        source="apple/coremltools issues 2473 (strides of 5 and 7; 10 and 11 took 30 s) and 2660 (18,001"
        " samples); chips and other sizes are not published, and that 16,384 is the limit is inferred",
        confidence="anecdotal",
        pattern=OpPattern(
            ops=("conv",),
            when=_endless,
            accepts=(Example("conv", _conv(7, 7)), Example("conv", _long_conv(18001))),
            rejects=(Example("conv", _conv(7, 6)), Example("conv", _long_conv(1800))),
        ),
    ),
    KnownHazard(
        id="state-width",
        kind="refused",
        phase="load",
        units=(NEURAL_ENGINE,),
        text="a model with a state whose last axis is no multiple of 32 does not load for the Neural"
        " Engine: {detail}",
        fix="pad the last axis of the state to the next multiple of 32, and cut it behind the read",
        source="apple/coremltools issue 2631 (M4, macOS 15.2): 270 fails, 256 runs; the multiple is the"
        " reporter's",
        confidence="measured",
        pattern=OpPattern(
            ops=("read_state", "write_state"),
            when=_uneven_state,
            accepts=(_read(270),),
            rejects=(_read(256),),
        ),
    ),
    KnownHazard(
        id="three-states",
        kind="refused",
        phase="load",
        units=(NEURAL_ENGINE,),
        text="models with three states or more did not load for the Neural Engine: {detail}",
        fix="keep keys and values in one state, stacked along the first axis",
        source=f"{COREML_LLM} (iPhone 17 Pro, iOS 26)",
        confidence="measured",
        scope=Scope(chips=("a19-pro",), since=(26, 0), before=(27, 0)),
        pattern=GraphPattern(
            find=_states,
            examples=(
                GraphExample(ops=(_RELU,), hits=(0,), facts=ProgramFacts(states=3), chip="a19-pro", os="26"),
                GraphExample(ops=(_RELU,), hits=(), facts=ProgramFacts(states=2), chip="a19-pro", os="26"),
            ),
        ),
    ),
    KnownHazard(
        id="model-size-ios",
        kind="silent fallback",
        phase="load",
        units=(NEURAL_ENGINE,),
        text="a model file of more than 1 GB does not run on the Neural Engine of iOS: {detail}",
        fix="split it with coremltools.models.utils.bisect_model, or palettize the weights",
        source=f"{APPLE_SIZES}; {COREML_LLM} (iPhone 17 Pro)",
        confidence="documented",
        pattern=GraphPattern(
            find=_large_on_ios,
            examples=(
                GraphExample(
                    ops=(_RELU,),
                    hits=(0,),
                    facts=ProgramFacts(weights_bytes=1_200_000_000),
                    chip="a17-pro",
                    os="18",
                ),
                GraphExample(
                    ops=(_RELU,),
                    hits=(),
                    facts=ProgramFacts(weights_bytes=900_000_000),
                    chip="a17-pro",
                    os="18",
                ),
            ),
        ),
    ),
    KnownHazard(
        id="tile-of-booleans",
        kind="silent fallback",
        phase="load",
        units=(NEURAL_ENGINE,),
        text="the Neural Engine's compiler fails on a tile of booleans: where a plan puts one there, the"
        " whole function leaves the unit",
        core_ml="In tile operations, tensors x[0] and output must have the same data type",
        fix="add a float16 mask of 0 and -10000 to the scores instead of tiling a boolean one",
        source=f"{MOBIUS} (M2, macOS 26.5)",
        confidence="measured",
        scope=Scope(since=(26, 0), before=(27, 0)),
        pattern=OpPattern(
            ops=("tile",),
            when=lambda view, context: view.type("x").dtype is DType.BOOL,
            accepts=(Example("tile", {"x": boolean(1, 1, 8), "reps": [1, 4, 1]}, chip="m2", os="26.5"),),
            rejects=(Example("tile", {"x": fp16(1, 1, 8), "reps": [1, 4, 1]}, chip="m2", os="26.5"),),
        ),
    ),
    KnownHazard(
        id="conv-dilated-row",
        kind="silent fallback",
        phase="load",
        units=(NEURAL_ENGINE,),
        text="a dilated convolution over such a wide tensor makes the compiler fail, and the whole"
        " function leaves the Neural Engine: {detail}",
        core_ml="Tensor dimensions N1D1C27H1W16386 are not within supported range",
        fix="work in chunks of the long axis, so that (width + padding) x dilation stays within 16384",
        source=f"{MOBIUS} (M2, macOS 26.5)",
        confidence="measured",
        scope=Scope(neural_engine=(None, 15)),
        pattern=OpPattern(
            ops=("conv",),
            when=_unfolded,
            accepts=(Example("conv", _dilated(8192), chip="m2", os="26.5"),),
            rejects=(Example("conv", _dilated(8191), chip="m2", os="26.5"),),
        ),
    ),
    KnownHazard(
        id="large-attentions",
        kind="silent fallback",
        phase="load",
        units=(NEURAL_ENGINE,),
        text="the Neural Engine's compiler fails on two fused attentions with large heads, often without"
        " an error: {detail}",
        core_ml="live input tensor not used in network",
        fix="write these attentions as matmul, add, softmax and matmul",
        source=f"{GEMMA_CHAT} (M4 Pro, macOS 26.5.2 and 26.6.2): heads of 512 fail, 256 do not",
        confidence="measured",
        scope=Scope(since=(26, 5), before=(27, 0)),
        pattern=GraphPattern(
            ops=(ATTENTION,),
            find=_large_attentions,
            examples=(
                GraphExample(ops=(_GLOBAL, _GLOBAL), hits=(1,), chip="m4-pro", os="26.5"),
                GraphExample(ops=(_GLOBAL, _SLIDING, _SLIDING), chip="m4-pro", os="26.5"),
            ),
        ),
    ),
)
