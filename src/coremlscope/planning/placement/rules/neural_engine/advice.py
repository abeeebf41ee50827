"""Neural Engine: what runs, but slowly, inexactly or with a risk. Advice has no effect on the placement."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.base.units import format_duration
from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.model.ir import Constant, Immediate, Value
from coremlscope.ops import OPS, traits_of
from coremlscope.ops.spec import work_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import always, extents, join_words, kernel, run_time_tensors
from coremlscope.planning.patterns.publications import (
    APPLE_MODELS,
    APPLE_TRANSFORMERS,
    GUIDE_GATES,
    GUIDE_LIMITS,
    GUIDE_OPS,
    GUIDE_PITFALLS,
    M4_PLANS,
)
from coremlscope.planning.patterns.rule import (
    EVERY_OP,
    Example,
    ProgramFacts,
    Rule,
    RuleContext,
    Scope,
    fp16,
    weight,
)
from coremlscope.planning.placement.rules.neural_engine.fixes import LARGE_OPERAND_FIX, large_operand_fix

_X = fp16(1, 64, 32, 32)
_on_m1 = partial(Example, chip="m1", os="14.5")
#: The largest operand that fits the unit's own memory (published as 2 MB).
_WORKING_SET = 2 * 2**20
#: The memory's bandwidth in Core ML's plans, and the unit's speed with operands that fit: `ane-guide`, 21.
_MEMORY_BPS, _FLOPPS = 68 * 2.0**30, 12e12
#: The speed of products with a single row, on an M1.
_SINGLE_ROW_FLOPPS = 6e9
#: Seconds of waiting for memory that are worth a remark.
_NOTICED_S = 50e-6
_PRODUCTS = Trait.CONVOLUTION | Trait.LINEAR | Trait.MATRIX_PRODUCT
_FUSED = Trait.ACTIVATION | Trait.FUNCTION | Trait.CHANNEL_SCALE
#: The last axis of a tensor in memory is padded to this many bytes.
_ROW_BYTES = 64
#: Constants up to this size are searched for infinities.
_SMALL = 4096
_NATIVE_FACTORS = (2, 3)
_SINGLE_ROWS = "sbryngelson/ane-guide, chapter 11"
_DECODER = ProgramFacts(decodes=True)
_CORES_OF_M1 = 4


def _conv(*shape: int, **more: object) -> dict[str, object]:
    return {"x": _X, "weight": weight(*shape), "pad_type": "same", **more}


def _pool(size: int, stride: int) -> dict[str, object]:
    return {"x": _X, "kernel_sizes": [size] * 2, "strides": [stride] * 2, "pad_type": "valid"}


def _size(view: OpView) -> str:
    return f"the kernel is {'x'.join(map(str, kernel(view)))}"


def _cuts_patches(view: OpView) -> bool:
    """True for a convolution whose windows do not overlap: the embedding of patches."""
    sizes = list(kernel(view))
    return max(sizes) > 1 and view.integers("strides", [1] * len(sizes)) == sizes


def _slow_width(view: OpView, context: RuleContext) -> str:
    return _size(view) if 9 <= kernel(view)[-1] <= 15 and not _cuts_patches(view) else ""


def _slow_to_compile(view: OpView, context: RuleContext) -> str:
    sizes = kernel(view)
    is_large = len(sizes) == 2 and min(sizes) >= 13 and max(sizes) <= 16
    return _size(view) if is_large and not _cuts_patches(view) else ""


def _large_patches(view: OpView, context: RuleContext) -> str:
    return _size(view) if max(kernel(view)) >= 9 and _cuts_patches(view) else ""


def _rest(number: int) -> int:
    """Returns the number divided by all its native factors."""
    for factor in _NATIVE_FACTORS:
        while number > 1 and number % factor == 0:
            number //= factor
    return number


def _odd_stride(view: OpView, context: RuleContext) -> str:
    strides = view.integers("strides", [1])
    has_own_rule = view.op.type == "conv" and _large_patches(view, context)
    if has_own_rule or all(_rest(stride) <= 1 for stride in strides):
        return ""
    return f"the strides are {'x'.join(map(str, strides))}"


def _odd_pool_stride(view: OpView, context: RuleContext) -> str:
    strides = view.integers("strides", [1])
    if all(size == 1 for size in (view.output_type().shape or ())[2:]):
        return ""  # A global pooling has one window and takes no step.
    return f"the strides are {'x'.join(map(str, strides))}" if not set(strides) <= {1, 2, 4} else ""


def _odd_groups(view: OpView, context: RuleContext) -> str:
    groups, channels = view.integer("groups", 1), view.shape("x")[1]
    return f"{groups} groups" if groups != channels and _CORES_OF_M1 % groups else ""


def _moving_weight(view: OpView, context: RuleContext) -> bool:
    return view.bound("weight").constant is None and (view.shape("x")[0] or 1) > 1


def _large_operand(view: OpView, context: RuleContext) -> str:
    """Only where moving the operands takes noticeably longer than computing with them."""
    converts = Trait.CONVERSION in traits_of(view.op.type)
    waiting = _waiting_s(view)
    if context.inserted or converts or waiting < _NOTICED_S:
        return ""
    found = [(type_.nbytes or 0, name, type_) for name, type_ in run_time_tensors(view)]
    size, name, type_ = max(found, key=lambda item: item[0], default=(0, "", None))
    if type_ is None or size <= _WORKING_SET:
        return ""
    longer = format_duration(waiting)
    return f"{name} is {extents(type_)}, {size / 2**20:.1f} MiB, about {longer} longer (estimated)"


def _is_fused(view: OpView, context: RuleContext) -> bool:
    """True for what is applied to a product's result before that is stored: activations, clamps, scales."""
    while _FUSED & traits_of(view.op.type):
        given = view.op.inputs.get("x", ())
        maker = context.producers.get(given[0].name) if given and isinstance(given[0], Value) else None
        if maker is None:
            return False
        if _PRODUCTS & traits_of(maker.op.type):
            return True
        view = maker
    return False


def _waiting_s(view: OpView) -> float:
    """How much longer it takes to move an operation's tensors than to compute, in seconds."""
    spec = OPS.get(view.op.type)
    work = work_of(spec, view) if spec is not None else None
    if work is None:
        return 0.0
    moved = work.read_bytes + work.written_bytes + work.weight_bytes
    return moved / _MEMORY_BPS - work.flops / _FLOPPS


def _thin_rows(view: OpView, context: RuleContext) -> str:
    for name, type_ in run_time_tensors(view):
        shape, elements = type_.shape or (), type_.elements
        if len(shape) > 2 and shape[-1] == 1 and elements and elements * _ROW_BYTES > _WORKING_SET:
            return f"{name} is {extents(type_)}"
    return ""


def _turns_rows(view: OpView, context: RuleContext) -> bool:
    order = view.integers("perm")
    return order[-1] not in (-1, len(order) - 1)


def _rank_five(view: OpView, context: RuleContext) -> str:
    for name, type_ in run_time_tensors(view):
        if type_.rank == 5:
            return f"{name} is {extents(type_)}"
    return ""


def _is_infinite(constant: Constant | None) -> bool:
    if constant is None or not isinstance(constant.data, Immediate):
        return False
    array: Any = constant.data.array
    return bool(array.dtype.kind == "f" and array.size <= _SMALL and np.isneginf(array).any())


def _minus_infinity(view: OpView, context: RuleContext) -> str:
    names = [name for name, given in view.inputs.items() if any(_is_infinite(b.constant) for b in given)]
    return f"{join_words(names)} contains it" if names else ""


def _late_slice(view: OpView, context: RuleContext) -> str:
    begin = view.integers("begin")
    masked = view.value("begin_mask", np.zeros(len(begin), bool)).reshape(-1)
    return f"it begins at {begin[-1]}" if begin[-1] != 0 and not masked[-1] else ""


def _long_reduction(view: OpView, context: RuleContext) -> str:
    limit = 192 if context.neural_engine_generation <= 14 else 384
    shape = view.shape("x")
    lengths = [shape[axis] or 0 for axis in view.integers("axes", range(len(shape)))]
    return f"{max(lengths)} elements of one axis, {limit} is the limit" if max(lengths) >= limit else ""


def _single_row(view: OpView, context: RuleContext) -> bool:
    """Only where reading the weights takes noticeable time."""
    shape = view.shape("x")
    rows = shape[:-1] if view.op.type == "linear" else shape[-2:-1]
    spec = OPS.get(view.op.type)
    work = work_of(spec, view) if spec is not None and all(size == 1 for size in rows) else None
    return work is not None and work.flops / _SINGLE_ROW_FLOPPS >= _NOTICED_S


def _nonzero_pad(view: OpView, context: RuleContext) -> bool:
    return view.text("mode", "constant") == "constant" and view.real("constant_val", 0.0) != 0.0


def _last_axis(view: OpView, context: RuleContext) -> bool:
    return view.integer("axis", -1) in (-1, len(view.shape("x")) - 1)


_advice = partial(Rule, unit=NEURAL_ENGINE, effect="advises")

RULES: tuple[Rule, ...] = (
    _advice(
        id="ne-slow-wide-kernel",
        ops=("conv",),
        when=_slow_width,
        message="kernels 9 to 15 wide are computed in several passes: {detail}",
        fix="use two smaller kernels (k1 + k2 - 1 = the old size) and train again",
        source=f"{M4_PLANS}; {APPLE_MODELS}",
        confidence="measured",
        applies_to=(Example("conv", _conv(64, 64, 9, 9)),),
        negative_examples=(
            Example("conv", _conv(64, 64, 9, 3)),
            Example("conv", _conv(64, 64, 14, 14, strides=[14, 14])),
        ),
    ),
    _advice(
        id="ne-slow-compile-kernel",
        ops=("conv",),
        when=_slow_to_compile,
        message="square kernels of 13 to 16 take seconds to minutes to compile (16x16: 212 s and 11.7 GB):"
        " {detail}",
        fix="use two smaller kernels (k1 + k2 - 1 = the old size) and train again",
        source=M4_PLANS,
        confidence="measured",
        applies_to=(Example("conv", _conv(64, 64, 16, 16)),),
        negative_examples=(Example("conv", _conv(64, 64, 12, 12)),),
    ),
    _advice(
        id="ne-slow-patches",
        ops=("conv",),
        when=_large_patches,
        message="an embedding of patches as a convolution with a large kernel is computed in several passes,"
        " and is slow to compile: {detail}",
        fix="keep it if it takes a small part of the time; otherwise cut the patches with reshape and"
        " transpose, and use linear with the same weights",
        source=f"{M4_PLANS}; {APPLE_MODELS}",
        confidence="measured",
        applies_to=(Example("conv", _conv(64, 64, 14, 14, strides=[14, 14])),),
        negative_examples=(
            Example("conv", _conv(64, 64, 14, 14)),
            Example("conv", _conv(64, 64, 4, 4, strides=[4, 4])),
        ),
    ),
    _advice(
        id="ne-slow-kernel-above-7",
        ops=("conv",),
        when=lambda view, context: _size(view) if max(kernel(view)) > 7 else "",
        message="kernels above 7x7 were split on chips up to A14: {detail}",
        fix="stay with 7x7 or smaller",
        source="ultralytics/yolov5 issue 2526",
        confidence="anecdotal",
        scope=Scope(neural_engine=(None, 13), before=(15, 0)),
        applies_to=(Example("conv", _conv(64, 64, 9, 9), chip="a12", os="14"),),
        negative_examples=(Example("conv", _conv(64, 64, 7, 7), chip="a12", os="14"),),
    ),
    _advice(
        id="ne-slow-stride",
        ops=("conv", "conv_transpose"),
        when=_odd_stride,
        message="strides with a prime factor above 3 are decomposed: {detail}",
        fix="use strides of 2, 3, 4, 6, 8, 9, 12 or 16, the same along both axes",
        source=APPLE_MODELS,
        confidence="documented",
        applies_to=(Example("conv", _conv(64, 64, 5, 5, strides=[5, 5])),),
        negative_examples=(Example("conv", _conv(64, 64, 3, 3, strides=[6, 6])),),
    ),
    _advice(
        id="ne-slow-pool-stride",
        ops=("max_pool", "avg_pool"),
        when=_odd_pool_stride,
        message="poolings are fast with strides of 1, 2 and 4: {detail}",
        fix="use a stride of 2 or 4",
        source=APPLE_MODELS,
        confidence="documented",
        applies_to=(Example("max_pool", _pool(3, 3)),),
        negative_examples=(Example("max_pool", _pool(3, 2)), Example("avg_pool", _pool(32, 32))),
    ),
    _advice(
        id="ne-slow-groups-on-m1",
        ops=("conv",),
        when=_odd_groups,
        message="grouped convolutions are fastest with 1, 2 or 4 groups on this Neural Engine: {detail}",
        fix="use 2 or 4 groups, or a depthwise convolution",
        source=GUIDE_LIMITS,
        confidence="measured",
        scope=Scope(neural_engine=(None, 13)),
        applies_to=(_on_m1("conv", {"x": _X, "weight": weight(64, 8, 3, 3), "groups": 8}),),
        negative_examples=(
            _on_m1("conv", {"x": _X, "weight": weight(64, 16, 3, 3), "groups": 4}),
            _on_m1("conv", {"x": _X, "weight": weight(64, 1, 3, 3), "groups": 64}),
        ),
    ),
    _advice(
        id="ne-risk-dynamic-weights",
        ops=("conv",),
        when=_moving_weight,
        message="convolutions with computed weights crashed the compiler for batches above 1",
        fix="use a batch of 1, or write it as a matmul",
        source=GUIDE_PITFALLS,
        confidence="measured",
        scope=Scope(neural_engine=(None, 13)),
        applies_to=(_on_m1("conv", {"x": fp16(2, 8, 8, 8), "weight": fp16(8, 8, 3, 3)}),),
        negative_examples=(_on_m1("conv", {"x": fp16(2, 8, 8, 8), "weight": weight(8, 8, 3, 3)}),),
    ),
    _advice(
        id="ne-risk-pool-of-8",
        ops=("max_pool",),
        when=lambda view, context: set(kernel(view)) | set(view.integers("strides", [1])) == {8},
        message="models with a max pooling of 8x8 at stride 8 hung while loading (with depthwise"
        " convolutions and nearest upsampling)",
        fix="pool by 2 three times",
        source="apple/coremltools issue 2367",
        confidence="anecdotal",
        scope=Scope(since=(17, 0), before=(26, 0)),
        applies_to=(Example("max_pool", _pool(8, 8), os="15"),),
        negative_examples=(Example("max_pool", _pool(8, 4), os="15"),),
    ),
    _advice(
        id="ne-slow-large-operand",
        ops=EVERY_OP,
        when=_large_operand,
        unless=_is_fused,
        message="operands above 2 MiB do not fit the Neural Engine's memory, and moving them takes longer"
        " than computing: {detail}",
        fix=LARGE_OPERAND_FIX,
        fix_for=large_operand_fix,
        source=GUIDE_LIMITS,
        confidence="measured",
        applies_to=(
            Example("relu", {"x": fp16(1, 64, 256, 256)}),
            Example("softmax", {"x": fp16(1, 6, 1500, 1500), "axis": -1}),
        ),
        negative_examples=(
            Example("relu", {"x": _X}),
            Example("linear", {"x": fp16(1, 1500, 384), "weight": weight(1536, 384)}),
        ),
    ),
    _advice(
        id="ne-slow-thin-rows",
        ops=EVERY_OP,
        when=_thin_rows,
        message="a last axis of 1 is padded to 64 bytes, 32 times its size: {detail}",
        fix="keep sequences in the last axis: (batch, channels, 1, length)",
        source=f"{APPLE_MODELS}; {APPLE_TRANSFORMERS}",
        confidence="documented",
        applies_to=(Example("relu", {"x": fp16(1, 128, 512, 1)}),),
        negative_examples=(
            Example("relu", {"x": fp16(1, 128, 1, 512)}),
            Example("relu", {"x": fp16(1, 128, 1, 1)}),
        ),
    ),
    _advice(
        id="ne-slow-transpose",
        ops=("transpose",),
        when=_turns_rows,
        message="a transpose that moves the last axis rewrites all data",
        fix="keep one layout; in attention, einsum with bchq,bkhc->bkhq needs no transpose",
        source=f"{APPLE_MODELS}; {APPLE_TRANSFORMERS}",
        confidence="documented",
        applies_to=(Example("transpose", {"x": fp16(1, 8, 16), "perm": [0, 2, 1]}),),
        negative_examples=(Example("transpose", {"x": fp16(1, 8, 16), "perm": [1, 0, 2]}),),
    ),
    _advice(
        id="ne-slow-rank-5",
        ops=EVERY_OP,
        when=_rank_five,
        message="tensors of rank 5 cost copies, and the compiler rejects them in some graphs: {detail}",
        fix="fold them to rank 4",
        source="FluidInference/mobius: candidates for the Neural Engine; FluidInference/FluidAudio",
        confidence="measured",
        applies_to=(Example("relu", {"x": fp16(1, 2, 2, 8, 8)}),),
        negative_examples=(Example("relu", {"x": _X}),),
    ),
    _advice(
        id="ne-slow-linear",
        ops=("linear",),
        when=lambda view, context: any(size != 1 for size in view.shape("x")[:-1]),
        message="the Neural Engine's own form of a linear layer is a 1x1 convolution; linear may cost copies",
        fix="use nn.Conv2d with a 1x1 kernel on (batch, channels, 1, length)",
        source=f"{APPLE_MODELS}; {APPLE_TRANSFORMERS}",
        confidence="documented",
        applies_to=(Example("linear", {"x": fp16(1, 128, 64), "weight": weight(64, 64)}),),
        negative_examples=(Example("linear", {"x": fp16(1, 64), "weight": weight(64, 64)}),),
    ),
    _advice(
        id="ne-slow-single-row",
        ops=("matmul", "linear"),
        when=lambda view, context: not context.facts.decodes and _single_row(view, context),
        message="products with a single row are limited by reading their weights (about 6 GFLOP/s on M1)",
        fix="palettize these weights, or compute several rows at once",
        source=_SINGLE_ROWS,
        confidence="measured",
        applies_to=(Example("linear", {"x": fp16(1, 1024), "weight": weight(1024, 1024)}),),
        negative_examples=(
            Example("linear", {"x": fp16(1, 64), "weight": weight(64, 64)}),
            Example("linear", {"x": fp16(8, 1024), "weight": weight(1024, 1024)}),
            Example("linear", {"x": fp16(1, 1024), "weight": weight(1024, 1024)}, facts=_DECODER),
        ),
    ),
    _advice(
        id="ne-slow-decoding",
        ops=("matmul", "linear"),
        when=lambda view, context: context.facts.decodes and _single_row(view, context),
        message="a decoder's products with a single row are limited by reading their weights (about 6 GFLOP/s"
        " on M1)",
        fix="palettize the weights, compute several tokens at once, or leave decoding to the GPU",
        source=_SINGLE_ROWS,
        confidence="measured",
        applies_to=(Example("linear", {"x": fp16(1, 1024), "weight": weight(1024, 1024)}, facts=_DECODER),),
        negative_examples=(
            Example("linear", {"x": fp16(1, 1024), "weight": weight(1024, 1024)}),
            Example("linear", {"x": fp16(8, 1024), "weight": weight(1024, 1024)}, facts=_DECODER),
        ),
    ),
    _advice(
        id="ne-slow-attention",
        ops=("scaled_dot_product_attention",),
        when=always,
        message="the Neural Engine has no fused attention; the operation is planned as if it only moved its"
        " tensors",
        fix="split attention by heads and write it with einsum and softmax over the channels",
        source=f"{APPLE_MODELS}; {M4_PLANS}",
        confidence="documented",
        applies_to=(
            Example(
                "scaled_dot_product_attention",
                dict.fromkeys(("query", "key", "value"), fp16(1, 8, 128, 64)),
            ),
        ),
    ),
    _advice(
        id="ne-slow-long-reduction",
        ops=("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_sum_square", "reduce_l2_norm"),
        when=_long_reduction,
        message="reductions of long axes need a transpose: {detail}",
        fix="reduce in two steps, or multiply by a matrix of ones",
        source=f"{GUIDE_OPS}; {GUIDE_GATES}",
        confidence="static analysis",
        applies_to=(
            Example("reduce_sum", {"x": fp16(1, 512, 8), "axes": [1], "keep_dims": True}),
            _on_m1("reduce_sum", {"x": fp16(1, 200, 8), "axes": [1], "keep_dims": True}),
        ),
        negative_examples=(Example("reduce_sum", {"x": fp16(1, 200, 8), "axes": [1], "keep_dims": True}),),
    ),
    _advice(
        id="ne-slow-square-sum-on-m1",
        ops=("reduce_sum_square",),
        when=always,
        message="this Neural Engine squares and sums in two steps and rounds to float16 in between",
        fix="",
        source=GUIDE_OPS,
        confidence="measured",
        scope=Scope(neural_engine=(None, 13)),
        applies_to=(_on_m1("reduce_sum_square", {"x": fp16(1, 64, 8), "axes": [1]}),),
    ),
    _advice(
        id="ne-exact-minus-infinity",
        ops=EVERY_OP,
        when=_minus_infinity,
        message="the Neural Engine does not follow IEEE 754 for -inf: {detail}",
        fix="use -10000 or -40000 in masks",
        source=APPLE_MODELS,
        confidence="documented",
        applies_to=(Example("add", {"x": fp16(1, 2), "y": [0.0, -math.inf]}),),
        negative_examples=(Example("add", {"x": fp16(1, 2), "y": [0.0, -1e4]}),),
    ),
    _advice(
        id="ne-exact-slice-on-m1-m2",
        ops=("slice_by_index", "slice_by_size"),
        when=_late_slice,
        message="this Neural Engine turns values above 4094 into infinity in slices that begin inside the"
        " last axis: {detail}",
        fix="slice another axis, begin at 0, or scale the values down first",
        source=GUIDE_PITFALLS,
        confidence="measured",
        scope=Scope(neural_engine=(None, 14)),
        applies_to=(_on_m1("slice_by_index", {"x": fp16(1, 64), "begin": [0, 8], "end": [1, 16]}),),
        negative_examples=(_on_m1("slice_by_index", {"x": fp16(1, 64), "begin": [0, 0], "end": [1, 16]}),),
    ),
    _advice(
        id="ne-risk-pad-value",
        ops=("pad",),
        when=_nonzero_pad,
        message="compilers of older systems reject padding with values other than 0",
        fix="pad with zeros and add a mask",
        source="751K/Apple-Neural-Engine-Microarchitecture-Study-M6: texts of the compiler",
        confidence="static analysis",
        applies_to=(Example("pad", {"x": _X, "pad": [1, 1, 1, 1], "mode": "constant", "constant_val": 1.0}),),
        negative_examples=(
            Example("pad", {"x": _X, "pad": [1, 1, 1, 1], "mode": "constant", "constant_val": 0.0}),
        ),
    ),
    _advice(
        id="ne-risk-top-k-of-rows",
        ops=("topk",),
        when=_last_axis,
        message="compiling a top-k along the last axis for M4 failed outside Core ML",
        fix="take the top-k along another axis, or in the app",
        source="751K/Apple-Neural-Engine-Microarchitecture-Study-M6 (M4, macOS 27.0.1)",
        confidence="measured",
        scope=Scope(neural_engine=(16, 16)),
        applies_to=(Example("topk", {"x": fp16(1, 8, 64), "k": 5, "axis": -1}),),
        negative_examples=(Example("topk", {"x": fp16(1, 8, 64), "k": 5, "axis": 1}),),
    ),
)
