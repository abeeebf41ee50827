"""Neural Engine: element types."""

from __future__ import annotations

from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.model.ir import DType, Value
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import BUFFERS, describe, run_time_inputs, run_time_tensors
from coremlscope.planning.patterns.publications import (
    ANEMLL,
    DEPTH_PLANS,
    GUIDE_OPS,
    M1_PLAN,
    M4_PLANS,
    M4_PRO_PLANS,
    MOBIUS,
)
from coremlscope.planning.patterns.rule import (
    EVERY_OP,
    Example,
    Rule,
    RuleContext,
    Scope,
    fp16,
    fp32,
    int32,
    tensor,
)
from coremlscope.planning.placement.rules.neural_engine.fixes import (
    FP32_BUFFER_FIX,
    FP32_FIX,
    FP32_FIX_BY_NAME,
    INTEGER_FIX,
    fp32_buffer_fix,
    fp32_fix,
    integer_fix,
)

_INTEGERS = frozenset({DType.INT32, DType.INT64, DType.UINT32, DType.UINT64})
_SINGLE = frozenset({DType.FP32})
_NO_DATAPATH = frozenset({DType.FP64, DType.BF16, DType.FP8_E4M3, DType.FP8_E5M2})

_FP32_SOURCE = f"{M1_PLAN}; {MOBIUS} (M2, macOS 26.5)"
#: From this version on the compiler accepts fp32 tensors.
_FP32_TAKEN = (27, 0)
#: From this version on it accepts fp32 inputs of the model: four plans on M4 Pro, macOS 26.5.1, have their
#: casts on the Neural Engine. No published plan shows what versions between 14.5 and 26 do.
_FP32_INPUTS_TAKEN = (26, 0)


def _integers(view: OpView, context: RuleContext) -> str:
    if view.op.type in BUFFERS and any(t.dtype not in _INTEGERS for _, t in run_time_tensors(view)):
        # One conversion stands for all inputs; in published plans it runs where one of them holds floats.
        return ""
    return describe(run_time_tensors(view, indices=False), _INTEGERS)


def _makes_fp32(view: OpView) -> bool:
    return any(name == "result" and type_.dtype is DType.FP32 for name, type_ in run_time_tensors(view))


def _fp32_result(view: OpView, context: RuleContext) -> bool:
    return view.op.type not in BUFFERS and _makes_fp32(view)


def _fp32_input(view: OpView, context: RuleContext) -> str:
    if view.op.type in BUFFERS or _makes_fp32(view):
        return ""
    return describe(run_time_inputs(view), _SINGLE)


def _is_taken_input(view: OpView, context: RuleContext) -> bool:
    """True for the cast of an input of the model, not of the result of another operation."""
    if context.core_ml < _FP32_INPUTS_TAKEN or view.op.type != "cast":
        return False
    given = next(iter(view.op.inputs.get("x", ())), None)
    maker = context.producers.get(given.name) if isinstance(given, Value) else None
    return maker is None or maker.op.type in BUFFERS


def _is_cast_from_taken_input(view: OpView, context: RuleContext) -> bool:
    return not _makes_fp32(view) and _is_taken_input(view, context)


def _single(view: OpView, context: RuleContext) -> str:
    return "" if view.op.type in BUFFERS else describe(run_time_tensors(view), _SINGLE)


def _fp32_buffer(view: OpView, context: RuleContext) -> bool:
    return any(type_.dtype is DType.FP32 for _, type_ in run_time_tensors(view))


def _no_datapath(view: OpView, context: RuleContext) -> str:
    return describe(run_time_tensors(view), _NO_DATAPATH)


def _argument_place(view: OpView, context: RuleContext) -> bool:
    return view.output_type().dtype is DType.INT32


RULES: tuple[Rule, ...] = (
    Rule(
        id="ne-int32",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_integers,
        message="32- and 64-bit integers do not run on the Neural Engine: {detail}",
        core_ml="Unsupported tensor data type: int32",
        fix=INTEGER_FIX,
        fix_for=integer_fix,
        fix_by_name=("cast",),
        source=f"{M4_PLANS}; {ANEMLL}; {MOBIUS}",
        confidence="measured",
        applies_to=(
            Example("mul", {"x": int32(1, 64), "y": int32(1, 64)}),
            Example("cast", {"x": fp16(1, 64), "dtype": "int32"}),
            Example("greater_equal", {"x": int32(1, 64), "y": 0}),
            Example("add", {"x": int32(1, 64), "y": 1000}, chip="m1", os="14.5"),
        ),
        negative_examples=(
            Example("mul", {"x": fp16(1, 64), "y": fp16(1, 64)}),
            Example("gather", {"x": fp16(1, 64, 8), "indices": [0, 3], "axis": 1}),
            Example("topk", {"x": fp16(1, 64, 8), "k": 5, "axis": 1}),
        ),
    ),
    Rule(
        id="ne-argument-place",
        unit=NEURAL_ENGINE,
        ops=(Trait.ARG_REDUCTION,),
        when=_argument_place,
        message="an arg-max or arg-min with int32 results does not run on the Neural Engine",
        core_ml="Output type int32 is not supported.",
        fix="take it in the app: return the scores, or pass the index in; or compare the scores with their"
        " reduce_max",
        source=M4_PLANS,
        confidence="measured",
        applies_to=(Example("reduce_argmax", {"x": fp16(1, 64, 32, 32), "axis": 1, "keep_dims": True}),),
        negative_examples=(
            Example(
                "reduce_argmax",
                {"x": fp16(1, 64, 32, 32), "axis": 1, "keep_dims": True, "output_dtype": "uint16"},
                outputs=(tensor(DType.UINT16, 1, 1, 32, 32),),
            ),
        ),
    ),
    Rule(
        id="ne-fp32-result",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_fp32_result,
        message="the Neural Engine computes in float16, and the result of this operation is float32",
        core_ml="Invalid output tensor format: fp32",
        fix=FP32_FIX,
        fix_for=fp32_fix,
        fix_by_name=FP32_FIX_BY_NAME,
        source=_FP32_SOURCE,
        confidence="measured",
        scope=Scope(before=_FP32_TAKEN),
        applies_to=(
            Example("mul", {"x": fp32(1, 224, 224, 3), "y": 0.5}, chip="m1", os="14.5"),
            Example("cast", {"x": fp16(1, 64), "dtype": "fp32"}, chip="m2", os="26"),
        ),
        negative_examples=(
            Example("mul", {"x": fp16(1, 224, 224, 3), "y": fp16(1)}, chip="m1", os="14.5"),
            Example("cast", {"x": fp32(1, 64), "dtype": "fp16"}, chip="m1", os="14.5"),
        ),
    ),
    Rule(
        id="ne-fp32-input",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_fp32_input,
        unless=_is_taken_input,
        message="the Neural Engine computes in float16: {detail}",
        core_ml="Invalid input tensor format: fp32",
        fix=FP32_FIX,
        fix_for=fp32_fix,
        fix_by_name=FP32_FIX_BY_NAME,
        source=f"{_FP32_SOURCE}; {M4_PRO_PLANS}",
        confidence="measured",
        scope=Scope(before=_FP32_TAKEN),
        applies_to=(Example("cast", {"x": fp32(1, 64), "dtype": "fp16"}, chip="m1", os="14.5"),),
        negative_examples=(
            Example("relu", {"x": fp16(1, 64)}, chip="m1", os="14.5"),
            Example("relu", {"x": fp32(1, 64)}, chip="m1", os="14.5"),
            Example("cast", {"x": fp32(1, 64), "dtype": "fp16"}, chip="m4-pro", os="26.5"),
        ),
    ),
    Rule(
        id="ne-fp32-on-m1",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_single,
        unless=_is_cast_from_taken_input,
        message="on M1 and A14 the Neural Engine computes in float16: {detail}",
        fix=FP32_FIX,
        fix_for=fp32_fix,
        fix_by_name=FP32_FIX_BY_NAME,
        source=DEPTH_PLANS,
        confidence="measured",
        scope=Scope(neural_engine=(None, 13), since=_FP32_TAKEN),
        applies_to=(
            Example("mul", {"x": fp32(1, 3, 384, 384), "y": 0.1}, chip="m1-max", os="27"),
            Example("cast", {"x": fp16(1, 64), "dtype": "fp32"}, chip="m1", os="27"),
        ),
        negative_examples=(
            Example("mul", {"x": fp16(1, 3, 384, 384), "y": fp16(1)}, chip="m1-max", os="27"),
            Example("cast", {"x": fp32(1, 64), "dtype": "fp16"}, chip="m1-max", os="27"),
        ),
    ),
    Rule(
        id="ne-fp32-buffer",
        unit=NEURAL_ENGINE,
        ops=BUFFERS,
        when=_fp32_buffer,
        message="the Neural Engine does not support float32 inputs of the model",
        core_ml="Unsupported tensor format: fp32.",
        fix=FP32_BUFFER_FIX,
        fix_for=fp32_buffer_fix,
        fix_by_name=BUFFERS,
        source=M1_PLAN,
        confidence="measured",
        scope=Scope(before=_FP32_INPUTS_TAKEN),
        applies_to=(
            Example(
                "tensor_buffer_to_tensor",
                {"input": fp32(1, 224, 224, 3)},
                outputs=(fp32(1, 224, 224, 3),),
                chip="m1",
                os="14.5",
            ),
        ),
        negative_examples=(
            Example(
                "tensor_buffer_to_tensor",
                {"input": fp16(1, 224, 224, 3)},
                outputs=(fp16(1, 224, 224, 3),),
                chip="m1",
                os="14.5",
            ),
        ),
    ),
    Rule(
        id="ne-element-type",
        unit=NEURAL_ENGINE,
        ops=EVERY_OP,
        when=_no_datapath,
        message="the Neural Engine has no arithmetic in this type: {detail}",
        fix="use float16; for stored weights also int8 or a palette",
        source=GUIDE_OPS,
        confidence="static analysis",
        applies_to=(
            Example("relu", {"x": tensor(DType.FP64, 1, 8)}),
            Example("relu", {"x": tensor(DType.BF16, 1, 8)}),
        ),
        negative_examples=(Example("relu", {"x": fp16(1, 8)}),),
    ),
)
