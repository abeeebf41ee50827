"""Compressed weights. These rules examine the operation that unpacks a weight."""

from __future__ import annotations

from collections.abc import Mapping

from coremlscope.base.arrays import np
from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.model.ir import Array, Constant, DType, TensorType
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView
from coremlscope.planning.patterns.publications import (
    ANE_BOOK,
    APPLE_MODELS,
    APPLE_QUANTIZATION,
    COMPILER_TEXTS,
)
from coremlscope.planning.patterns.rule import (
    Example,
    GraphContext,
    GraphExample,
    GraphRule,
    Result,
    fp16,
    weight,
)
from coremlscope.planning.patterns.weights import WEIGHTED, packed_weights


def _given(view: OpView, name: str) -> Constant | None:
    """An argument of an unpacking operation: an attribute up to iOS 17, an input from iOS 18 on."""
    if name in view.op.attributes:
        return view.op.attributes[name]
    return view.bound(name).constant if view.has(name) else None


def _blocks(maker: OpView) -> str:
    """The shape of a blockwise scale: ``64x2``; empty where there is one scale per output or tensor."""
    given = _given(maker, "scale")
    shape = maker.output_type().shape or ()
    scale = given.type.shape if given is not None and isinstance(given.type, TensorType) else None
    if not shape or scale is None or len(scale) != len(shape):
        return ""
    per_output = scale[0] in (1, shape[0]) and all(count == 1 for count in scale[1:])
    return "" if per_output else "x".join(str(count) for count in scale)


def _blockwise(context: GraphContext) -> Mapping[str, str]:
    kinds = ("constexpr_blockwise_shift_scale", "constexpr_sparse_blockwise_shift_scale")
    found = ((id_, _blocks(maker)) for id_, _, maker in packed_weights(context, *kinds))
    return {id_: f"{blocks} scales" for id_, blocks in found if blocks}


def _strided_palettes(context: GraphContext) -> Mapping[str, str]:
    hits = {}
    for id_, view, _ in packed_weights(context, "constexpr_lut_to_dense", "constexpr_lut_to_sparse"):
        try:
            strides = view.integers("strides", [1])
        except (CannotInfer, CannotLower, ValueError):
            continue
        if max(strides) > 2:
            hits[id_] = f"the strides are {'x'.join(map(str, strides))}"
    return hits


def _shifted(context: GraphContext) -> Mapping[str, str]:
    """Weights whose zero point is not 0; symmetric unsigned ones have theirs in the middle."""
    hits = {}
    for id_, _, maker in packed_weights(context, "constexpr_affine_dequantize"):
        constant = _given(maker, "zero_point")
        if constant is None or not constant.is_available:
            continue
        points: Array = constant.numpy()
        middle = 128 if points.dtype == np.uint8 else 0
        if (points != middle).any():
            hits[id_] = ""
    return hits


def _example(
    kind: str, unpacked: TensorType, use: str, more: Mapping[str, object], **packed: object
) -> tuple[Example, ...]:
    return (
        Example(kind, packed, outputs=(unpacked,)),
        Example(use, {"x": fp16(1, 64, 32, 32), **more, "weight": Result(0)}),
    )


def _linear(*scale: int) -> tuple[Example, ...]:
    data = {"data": weight(64, 64, dtype=DType.INT8), "scale": weight(*scale)}
    return (
        Example("constexpr_blockwise_shift_scale", data, outputs=(fp16(64, 64),)),
        Example("linear", {"x": fp16(1, 8, 64), "weight": Result(0)}),
    )


def _palette(stride: int) -> tuple[Example, ...]:
    return _example(
        "constexpr_lut_to_dense",
        fp16(64, 64, 3, 3),
        "conv",
        {"strides": [stride, stride]},
        indices=weight(64, 64, 3, 3, dtype=DType.UINT8),
        lut=weight(1, 1, 1, 1, 16, 1),
    )


def _affine(zero: int) -> tuple[Example, ...]:
    return _example(
        "constexpr_affine_dequantize",
        fp16(64, 64, 3, 3),
        "conv",
        {},
        quantized_data=weight(64, 64, 3, 3, dtype=DType.INT8),
        scale=0.1,
        zero_point=zero,
        axis=0,
    )


GRAPH_RULES: tuple[GraphRule, ...] = (
    GraphRule(
        id="ne-blockwise-weights",
        unit=NEURAL_ENGINE,
        find=_blockwise,
        message="weights with a scale per block do not run on the Neural Engine: {detail}",
        core_ml="ANE only support per-cout/per-tensor quantization",
        fix="quantize per channel (granularity='per_channel'), or palettize; per block is meant for the GPU",
        source=f"{ANE_BOOK} (M4 Max, macOS 15 and 26); apple/coremltools issue 2510; {APPLE_QUANTIZATION}",
        confidence="measured",
        ops=(WEIGHTED, "conv"),
        examples=(GraphExample(ops=_linear(64, 2), hits=(1,)), GraphExample(ops=_linear(64, 1))),
    ),
    GraphRule(
        id="ne-palette-stride",
        unit=NEURAL_ENGINE,
        find=_strided_palettes,
        effect="advises",
        message="palettized kernels are native with strides of 1 and 2 only: {detail}",
        fix="keep the first, strided layer in float16 or int8 (op_name_configs of OptimizationConfig)",
        source=APPLE_MODELS,
        confidence="documented",
        ops=(Trait.CONVOLUTION,),
        examples=(GraphExample(ops=_palette(4), hits=(1,)), GraphExample(ops=_palette(2))),
    ),
    GraphRule(
        id="ne-asymmetric-weights",
        unit=NEURAL_ENGINE,
        find=_shifted,
        effect="advises",
        message="int8 weights with a zero point are slower on the Neural Engine, and rejected in some forms",
        fix="quantize with mode='linear_symmetric'",
        source=f"sbryngelson/ane-guide, chapter 7; {COMPILER_TEXTS}",
        confidence="static analysis",
        ops=(WEIGHTED,),
        examples=(GraphExample(ops=_affine(3), hits=(1,)), GraphExample(ops=_affine(0))),
    ),
)
