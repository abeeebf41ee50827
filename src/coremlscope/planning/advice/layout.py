"""Findings on shapes: the layout of sequences, ranks and extents that the Neural Engine does not take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from coremlscope.model.ir import Constant, Derived, TensorType
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import BoundValue, OpView
from coremlscope.planning.advice.rule import (
    AdviceRule,
    Change,
    Found,
    FunctionView,
    has_trait,
    listed,
    plural,
    shape_of,
)
from coremlscope.planning.patterns.publications import APPLE_TRANSFORMERS, M4_PLANS

#: The fewest positions of a sequence, and layers over them, that make a layout worth while.
_POSITIONS, _LAYERS = 8, 4
_WIDE_RANK, _RANK_RULES = 5, frozenset({"ne-rank", "ne-matmul-rank-on-m1", "ne-linear-rank"})
_EXTENT_RULES = frozenset({"ne-extent", "ne-extent-16384", "ne-transpose-extent"})
#: The longest axis of every Neural Engine; newer ones take four times as much (see the rules of placement).
LONGEST_AXIS = 16_384
_PARTS = f"compute the wide layer in parts of at most {LONGEST_AXIS:,} outputs, and join their results"


def _sequences(function: FunctionView) -> Found | None:
    found = [view for view in function.views if _is_over_positions(view)]
    if len(found) < _LAYERS:
        return None
    return Found(
        text=f"{len(found)} linear layers work on sequences laid out as (batch, position, channel):"
        f" {listed(found)}.",
        ops=tuple(view.op.id for view in found),
        change=Change(replaced={view.op.id: _as_convolution(view) for view in found}),
    )


def _is_over_positions(view: OpView) -> bool:
    if not has_trait(view, Trait.LINEAR) or view.op.type != "linear" or not view.has("weight"):
        return False
    shape, weight = shape_of(view, "x"), shape_of(view, "weight")
    is_sequence = shape is not None and len(shape) == 3 and shape[1] >= _POSITIONS
    return is_sequence and weight is not None and len(weight) == 2


def _as_convolution(view: OpView) -> OpView:
    """Returns a linear layer over (batch, position, channel) as a 1×1 convolution over (B, C, 1, S)."""
    batch, positions, channels = shape_of(view, "x") or (0, 0, 0)
    given, weight, result = view.bound("x"), view.bound("weight"), view.outputs[0]
    outputs = (shape_of(view, "weight") or (0,))[0]
    inputs = {
        "x": (_shaped(given, (batch, channels, 1, positions)),),
        "weight": (_shaped(weight, (outputs, channels, 1, 1)),),
    }
    if view.has("bias"):
        inputs["bias"] = (view.bound("bias"),)
    return OpView(
        op=replace(view.op, type="conv"),
        inputs=inputs,
        opset=view.opset,
        outputs=(_shaped(result, (batch, outputs, 1, positions)),),
    )


def _shaped(value: BoundValue, shape: tuple[int, ...]) -> BoundValue:
    assert isinstance(value.type, TensorType)
    type_ = TensorType(value.type.dtype, shape)
    known = value.constant
    if known is None:
        return BoundValue(type_)
    return BoundValue(type_, Constant(type_, Derived(lambda: known.numpy().reshape(shape), (known,))))


def _ranks(function: FunctionView) -> Found | None:
    found = [view for view in function.views if any(len(shape) >= _WIDE_RANK for shape in _shapes(view))]
    if not found:
        return None
    what = "takes or gives" if len(found) == 1 else "take or give"
    return Found(
        text=f"{plural(len(found), 'operation')} {what} tensors of more than 4 dimensions: {listed(found)}.",
        ops=tuple(view.op.id for view in found),
        change=Change(freed=_RANK_RULES),
    )


def _extents(function: FunctionView) -> Found | None:
    found = [
        view
        for view in function.views
        if any(max(shape, default=0) > LONGEST_AXIS for shape in _shapes(view))
    ]
    if not found:
        return None
    longest = max(max(shape, default=0) for view in found for shape in _shapes(view))
    what = "works" if len(found) == 1 else "work"
    return Found(
        text=f"{plural(len(found), 'operation')} {what} on axes of up to {longest:,} elements:"
        f" {listed(found)}.",
        ops=tuple(view.op.id for view in found),
        change=Change(freed=_EXTENT_RULES),
        fix=_PARTS if any(map(_is_wide, found)) else "",
    )


def _is_wide(view: OpView) -> bool:
    """Returns whether an operation is a layer that several could compute: its outputs are many."""
    weight = shape_of(view, "weight") if view.op.type in ("linear", "conv") else None
    is_known = view.has("weight") and view.is_known("weight")
    return is_known and weight is not None and weight[0] > LONGEST_AXIS and view.integer("groups", 1) == 1


def _shapes(view: OpView) -> Iterator[Sequence[int]]:
    """Yields the shapes of what an operation reads and gives at run time."""
    for value in (*(one for given in view.inputs.values() for one in given), *view.outputs):
        if value.constant is None and isinstance(value.type, TensorType) and value.type.shape is not None:
            yield [extent or 0 for extent in value.type.shape]


RULES: tuple[AdviceRule, ...] = (
    AdviceRule(
        id="sequence-layout",
        doc="Linear layers over sequences of the layout (B, S, C). Apple's own transformers for the Neural"
        " Engine keep sequences as (B, C, 1, S), where the last axis is long and contiguous, and write linear"
        " layers as 1×1 convolutions. The cost is that of the convolutions; it assumes that the whole network"
        " is written so, without transposes between the two layouts.",
        find=_sequences,
        fix="keep sequences as (B, C, 1, S), and write linear layers as 1×1 convolutions",
        source=APPLE_TRANSFORMERS,
        confidence="documented",
        transform="linear-as-conv",
    ),
    AdviceRule(
        id="high-rank",
        doc="Operations on tensors of five or more dimensions. The Neural Engine takes five at most, and some"
        " operations four.",
        find=_ranks,
        fix="join axes, for instance batch and heads, so that four dimensions are left",
        source=M4_PLANS,
        confidence="measured",
    ),
    AdviceRule(
        id="long-axes",
        doc="Operations on axes that are longer than the Neural Engine takes: 16,384 elements, on newer chips"
        " 65,536.",
        find=_extents,
        fix="reshape a long axis into two, or split the tensor",
        source=M4_PLANS,
        confidence="measured",
    ),
)
