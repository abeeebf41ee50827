"""Neural Engine: gathers, slices and other data movement; matrix products; attention."""

from __future__ import annotations

from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.model.ir import DType
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.forms import always, extents, is_fixed
from coremlscope.planning.patterns.publications import (
    COMPILER_TEXTS,
    GUIDE_LIMITS,
    GUIDE_OPS,
    M4_MAX_PLANS,
    M4_PLANS,
    MOBIUS,
)
from coremlscope.planning.patterns.rule import (
    Example,
    Rule,
    RuleContext,
    Scope,
    fp16,
    int32,
    tensor,
    weight,
)

#: Elements of the summed axis whose float16 products fit the unit's 64 KiB of kernel memory.
_LONGEST_SUM = 32768
_LONGEST_SEARCH = 2048


def _moving_indices(view: OpView, context: RuleContext) -> str:
    dtype = view.type("indices").dtype
    if is_fixed(view, "indices") or dtype == DType.UINT16:
        return ""
    return f"indices are {dtype.value}"


def _unsigned_indices(view: OpView, context: RuleContext) -> bool:
    return not is_fixed(view, "indices") and view.type("indices").dtype == DType.UINT16


def _wide_indices(view: OpView, context: RuleContext) -> bool:
    return not is_fixed(view, "indices") and view.type("indices").dtype in (DType.INT32, DType.INT64)


def _moving_slice(view: OpView, context: RuleContext) -> str:
    names = [name for name in ("begin", "end", "size") if not is_fixed(view, name)]
    return f"{' and '.join(names)} known at run time only" if names else ""


def _long_search(view: OpView, context: RuleContext) -> str:
    shape = view.shape("x")
    length = shape[view.integer("axis", -1)]
    return f"the axis has {length} elements" if length is not None and length > _LONGEST_SEARCH else ""


def _summed(view: OpView) -> int | None:
    if view.op.type == "linear":
        return view.shape("x")[-1]
    return view.shape("x")[-2 if view.flag("transpose_x", False) else -1]


def _long_sum(view: OpView, context: RuleContext) -> str:
    length = _summed(view)
    return f"{length} products are summed" if length is not None and length > _LONGEST_SUM else ""


def _high_rank(view: OpView, context: RuleContext) -> str:
    shape = view.shape("x")
    return f"x is {extents(view.type('x'))}" if len(shape) >= 5 else ""


def _uneven_attention(view: OpView, context: RuleContext) -> str:
    query, key, value = (view.type(name) for name in ("query", "key", "value"))
    if query.rank is not None and query.rank > 4:
        return f"query is {extents(query)}"
    if key.is_static and value.is_static and key.shape != value.shape:
        return f"key is {extents(key)} and value {extents(value)}"
    return ""


_QKV = {"query": fp16(1, 8, 128, 64), "key": fp16(1, 8, 128, 64), "value": fp16(1, 8, 128, 64)}

RULES: tuple[Rule, ...] = (
    Rule(
        id="ne-gather-indices",
        unit=NEURAL_ENGINE,
        ops=("gather",),
        when=_moving_indices,
        message="a gather by indices that are only known at run time (a lookup of embeddings) does not run on"
        " the Neural Engine: {detail}",
        core_ml="Unsupported gather index type",
        fix="look embeddings up in the app and pass them in, or use constants; for a small table, multiply by"
        " a one-hot vector",
        source=f"{M4_PLANS}; {MOBIUS} (M5 Pro, macOS 27)",
        confidence="measured",
        applies_to=(
            Example("gather", {"x": weight(1000, 256), "indices": int32(1, 64), "axis": 0}),
            Example("gather", {"x": fp16(1000, 256), "indices": tensor(DType.INT16, 1, 64), "axis": 0}),
        ),
        negative_examples=(
            Example("gather", {"x": fp16(1, 64, 8, 8), "indices": [0, 5], "axis": 3}),
            Example(
                "gather",
                {"x": weight(3, 1024), "indices": tensor(DType.UINT16, 1), "axis": 0},
                chip="m4-max",
                os="26.6",
            ),
        ),
    ),
    Rule(
        id="ne-gather-uint16",
        unit=NEURAL_ENGINE,
        ops=("gather",),
        when=_unsigned_indices,
        message="from iOS 27 and macOS 27 on, a gather by uint16 indices that are only known at run time does"
        " not run on the Neural Engine",
        core_ml="Unsupported gather index type",
        fix="look embeddings up in the app and pass them in, multiply by a one-hot vector, or use constants",
        source=f"{MOBIUS} (M5 Pro, macOS 27); runs in {M4_MAX_PLANS}",
        confidence="measured",
        scope=Scope(since=(27, 0)),
        applies_to=(
            Example("gather", {"x": weight(1000, 256), "indices": tensor(DType.UINT16, 1, 64), "axis": 0}),
        ),
        negative_examples=(Example("gather", {"x": fp16(1, 64, 8, 8), "indices": [0, 5], "axis": 3}),),
    ),
    Rule(
        id="ne-gather-int32",
        unit=NEURAL_ENGINE,
        ops=("gather_nd", "gather_along_axis"),
        when=_wide_indices,
        message="32-bit indices that are only known at run time do not reach the Neural Engine",
        core_ml="Unsupported tensor data type: int32",
        fix="gather in the app, multiply by a one-hot mask, or gather with constant indices",
        source=M4_PLANS,
        confidence="measured",
        applies_to=(
            Example("gather_nd", {"x": fp16(8, 64), "indices": int32(4, 1), "batch_dims": 0}),
            Example("gather_along_axis", {"x": fp16(8, 64), "indices": int32(8, 64), "axis": 0}),
        ),
        negative_examples=(
            Example("gather_nd", {"x": fp16(8, 64), "indices": tensor(DType.INT16, 4, 1), "batch_dims": 0}),
        ),
    ),
    Rule(
        id="ne-slice-begin",
        unit=NEURAL_ENGINE,
        ops=("slice_by_index", "slice_by_size"),
        when=_moving_slice,
        message="a slice at a position only known at run time does not run on the Neural Engine: {detail}",
        core_ml='Op "{operation}" is connected to an invalid live-in "{operand}": Unsupported tensor data'
        " type: int32",
        operands=("begin", "end", "size"),
        fix="slice with constants, or multiply by a one-hot mask that is passed in",
        source=M4_PLANS,
        confidence="measured",
        applies_to=(
            Example(
                "slice_by_size",
                {"x": fp16(1, 64, 16, 16), "begin": int32(4), "size": [1, 32, 16, 16]},
                outputs=(fp16(1, 32, 16, 16),),
            ),
            Example(
                "slice_by_index",
                {"x": fp16(1, 64), "begin": int32(2), "end": int32(2)},
                outputs=(fp16(1, 8),),
            ),
        ),
        negative_examples=(
            Example("slice_by_size", {"x": fp16(1, 64, 8), "begin": [0, 0, 0], "size": [1, 32, 8]}),
            Example("slice_by_index", {"x": fp16(1, 64), "begin": [0, 0], "end": [1, 32]}),
        ),
    ),
    Rule(
        id="ne-argument-length",
        unit=NEURAL_ENGINE,
        ops=(Trait.ARG_REDUCTION,),
        when=_long_search,
        message="arg-max and arg-min on the Neural Engine search 2048 elements at most: {detail}",
        fix="search parts and compare the results, or search in the app",
        source=GUIDE_LIMITS,
        confidence="measured",
        applies_to=(Example("reduce_argmax", {"x": fp16(1, 4096), "axis": 1}),),
        negative_examples=(Example("reduce_argmax", {"x": fp16(1, 2048), "axis": 1}),),
    ),
    Rule(
        id="ne-argmin-before-m3",
        unit=NEURAL_ENGINE,
        ops=("reduce_argmin",),
        when=always,
        message="this Neural Engine has no arg-min; A16, M3 and later have",
        fix="take the arg-max of the negated scores",
        source=GUIDE_OPS,
        confidence="static analysis",
        scope=Scope(neural_engine=(None, 14)),
        applies_to=(Example("reduce_argmin", {"x": fp16(1, 64), "axis": 1}, chip="m1", os="14.5"),),
    ),
    Rule(
        id="ne-long-sum",
        unit=NEURAL_ENGINE,
        ops=("matmul", "linear"),
        when=_long_sum,
        message="products of matrices on the Neural Engine sum over 32768 elements at most: {detail}",
        core_ml="Error: the output channel of input A (80000 kB) can not fit the Kmem (65536 kB)",
        fix="split the summed axis in two and add the products",
        source=M4_PLANS,
        confidence="measured",
        applies_to=(
            Example("matmul", {"x": fp16(1, 16, 40000), "y": fp16(1, 40000, 16)}),
            Example("matmul", {"x": fp16(1, 40000, 16), "y": fp16(1, 40000, 16), "transpose_x": True}),
        ),
        negative_examples=(Example("matmul", {"x": fp16(1, 16, 32768), "y": fp16(1, 32768, 16)}),),
    ),
    Rule(
        id="ne-linear-rank",
        unit=NEURAL_ENGINE,
        ops=("linear",),
        when=_high_rank,
        message="linear takes tensors of rank 4 at most on the Neural Engine: {detail}",
        core_ml="ANE cannot support Linear with input rank >= 5",
        fix="reshape to rank 4 or less before it",
        source=GUIDE_LIMITS,
        confidence="measured",
        applies_to=(Example("linear", {"x": fp16(1, 2, 3, 4, 8), "weight": weight(16, 8)}),),
        negative_examples=(Example("linear", {"x": fp16(1, 2, 12, 8), "weight": weight(16, 8)}),),
    ),
    Rule(
        id="ne-attention-shapes",
        unit=NEURAL_ENGINE,
        ops=("scaled_dot_product_attention",),
        when=_uneven_attention,
        message="the Neural Engine's attention takes rank 4 at most, keys and values of one shape: {detail}",
        fix="fold the leading dimensions, or write it with matmul and softmax",
        source=COMPILER_TEXTS,
        confidence="static analysis",
        applies_to=(
            Example("scaled_dot_product_attention", {**_QKV, "value": fp16(1, 8, 128, 32)}),
            Example("scaled_dot_product_attention", dict.fromkeys(_QKV, fp16(1, 2, 4, 16, 8))),
        ),
        negative_examples=(Example("scaled_dot_product_attention", _QKV),),
    ),
)
