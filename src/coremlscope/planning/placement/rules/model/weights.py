"""Compressed weights. These rules examine the operation that unpacks a weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coremlscope.base.arrays import np
from coremlscope.devices.unit import GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.model.ir import Array, Constant, DType, TensorType, Value
from coremlscope.ops import traits_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView
from coremlscope.planning.placement.publications import (
    ANE_BOOK,
    APPLE_MODELS,
    APPLE_QUANTIZATION,
    COMPILER_TEXTS,
)
from coremlscope.planning.placement.rules.rule import (
    Example,
    GraphContext,
    GraphExample,
    GraphRule,
    Result,
    Scope,
    fp16,
    weight,
)

#: The parameter that holds the weight, by trait.
_WEIGHTS = {
    Trait.CONVOLUTION: "weight",
    Trait.LINEAR: "weight",
    Trait.MATRIX_PRODUCT: "y",
}
_WEIGHTED = Trait.CONVOLUTION | Trait.LINEAR | Trait.MATRIX_PRODUCT


def packed_weights(context: GraphContext, *kinds: str) -> Iterator[tuple[str, OpView, OpView]]:
    """Operations whose weight is unpacked by an operation of one of these types: id, operation, unpacking."""
    for id_, view in context.ops:
        traits = traits_of(view.op.type)
        parameter = next((name for trait, name in _WEIGHTS.items() if trait in traits), "")
        for argument in view.op.inputs.get(parameter, ()):
            maker = context.producers.get(argument.name) if isinstance(argument, Value) else None
            if maker is not None and maker.op.type in kinds:
                yield id_, view, maker


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


def _scaled_palettes(context: GraphContext) -> Mapping[str, str]:
    """Weights from a palette with a scale for each output (per_channel_scale), on the weight or its table."""
    hits = {}
    for id_, _, maker in packed_weights(context, "constexpr_lut_to_dense"):
        table = maker.op.inputs.get("lut", ())
        source = context.producers.get(table[0].name) if table and isinstance(table[0], Value) else None
        if source is not None and source.op.type == "constexpr_blockwise_shift_scale":
            hits[id_] = ""
    for id_, _, maker in packed_weights(context, "constexpr_blockwise_shift_scale"):
        given = maker.op.inputs.get("data", ())
        source = context.producers.get(given[0].name) if given and isinstance(given[0], Value) else None
        if source is not None and source.op.type == "constexpr_lut_to_dense":
            hits[id_] = ""
    return hits


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


def _scaled_palette() -> tuple[Example, ...]:
    table, scaled = _palette(1)[0], {"data": Result(0), "scale": weight(64, 1, 1, 1)}
    return (
        table,
        Example("constexpr_blockwise_shift_scale", scaled, outputs=(fp16(64, 64, 3, 3),)),
        Example("conv", {"x": fp16(1, 64, 32, 32), "weight": Result(1)}),
    )


def _scaled_table() -> tuple[Example, ...]:
    packed = {"data": weight(16, 1, 1, 1, 16, 1, dtype=DType.INT8), "scale": weight(16, 1, 1, 1, 1, 1)}
    indices = weight(64, 64, 3, 3, dtype=DType.UINT8)
    return (
        Example("constexpr_blockwise_shift_scale", packed, outputs=(fp16(16, 1, 1, 1, 16, 1),)),
        Example(
            "constexpr_lut_to_dense", {"indices": indices, "lut": Result(0)}, outputs=(fp16(64, 64, 3, 3),)
        ),
        Example("conv", {"x": fp16(1, 64, 32, 32), "weight": Result(1)}),
    )


def _ends_with_scaled_palettes(unit: ComputeUnit, prefix: str) -> GraphRule:
    return GraphRule(
        id=f"{prefix}-scaled-palettes",
        unit=unit,
        find=_scaled_palettes,
        effect="crashes",
        message="weights from palettes with scales per channel ended the app on macOS 26, on the GPU and"
        " while loading for the Neural Engine",
        fix="palettize without enable_per_channel_scale",
        source="apple/coremltools pull request 2688 (M4, macOS 26.6.2)",
        confidence="anecdotal",
        ops=(_WEIGHTED,),
        scope=Scope(since=(26, 0), before=(27, 0)),
        examples=(
            GraphExample(ops=_scaled_palette(), hits=(2,), os="26"),
            GraphExample(ops=_scaled_table(), hits=(2,), os="26"),
            GraphExample(ops=_palette(1), os="26"),
        ),
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
        ops=(_WEIGHTED, "conv"),
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
        ops=(_WEIGHTED,),
        examples=(GraphExample(ops=_affine(3), hits=(1,)), GraphExample(ops=_affine(0))),
    ),
    _ends_with_scaled_palettes(NEURAL_ENGINE, "ne"),
    _ends_with_scaled_palettes(GPU, "gpu"),
)
