"""Kinds of kernels: one for each speed that compute units have."""

from __future__ import annotations

import functools
from typing import Literal, get_args

from coremlscope.model.ir import StateType, TensorType
from coremlscope.ops import has_traits, traits_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import BoundValue, OpView
from coremlscope.planning.cost.latency.geometry import Geometry
from coremlscope.planning.cost.latency.norms import over_maps

KernelKind = Literal[
    "conv",
    "pointwise",
    "depthwise",
    "grouped",
    "linear",
    "matmul",
    "attention",
    "elementwise",
    "softmax",
    "norm",
    "map_norm",
    "reduce",
    "pool",
    "copy",
    "channels",
    "reshape",
    "layout",
    "resize",
    "recurrent",
    "other",
]

KERNEL_KINDS: tuple[KernelKind, ...] = get_args(KernelKind)

#: The kind of a kernel by a trait of its head, where the trait alone decides.
KIND_OF_TRAIT: dict[Trait, KernelKind] = {
    Trait.LINEAR: "linear",
    Trait.MATRIX_PRODUCT: "matmul",
    Trait.ATTENTION: "attention",
    Trait.RECURRENCE: "recurrent",
    Trait.SOFTMAX: "softmax",
    Trait.NORMALIZATION: "norm",
    Trait.VECTOR_NORMALIZATION: "norm",
    Trait.MAP_NORMALIZATION: "map_norm",
    Trait.REDUCTION: "reduce",
    Trait.ARG_REDUCTION: "reduce",
    Trait.POOLING: "pool",
    Trait.COPY: "copy",
    Trait.SLICE: "copy",
    Trait.UPDATE: "copy",
    Trait.STATE_WRITE: "copy",
    Trait.GATHER: "copy",
    Trait.SCATTER: "copy",
    Trait.GENERATION: "copy",
    Trait.RESHAPE: "reshape",
    Trait.TRANSPOSITION: "layout",
    Trait.REARRANGEMENT: "layout",
    Trait.RESIZING: "resize",
    Trait.ACTIVATION: "elementwise",
    Trait.FUNCTION: "elementwise",
    Trait.ARITHMETIC: "elementwise",
    Trait.MASK: "elementwise",
    Trait.ELEMENTWISE: "elementwise",
    Trait.CONVERSION: "elementwise",
    Trait.CHANNEL_SCALE: "elementwise",
}


def kind_of(view: OpView, geometry: Geometry) -> KernelKind:
    """The kind of a kernel whose head is this operation."""
    type_ = view.op.type
    if has_traits(type_, Trait.CONVOLUTION):
        if geometry.groups > 1:
            return "depthwise" if geometry.in_channels == 1 else "grouped"
        return "conv" if geometry.taps > 1 else "pointwise"
    if has_traits(type_, Trait.TRANSPOSITION) and moves_channels(view):
        return "channels"
    if has_traits(type_, Trait.NORMALIZATION) and over_maps(view):
        return "map_norm"
    kind = _kind_by_traits(type_)
    if kind == "copy" and (_cuts_rows(view) or (view.has("interleave") and view.flag("interleave"))):
        return "layout"
    return kind


@functools.cache
def _kind_by_traits(type_: str) -> KernelKind:
    return next((KIND_OF_TRAIT[trait] for trait in traits_of(type_) if trait in KIND_OF_TRAIT), "other")


def moves_channels(view: OpView) -> bool:
    """True where a transposition moves one axis from the front to the back, or the reverse."""
    shape = shape_of(view.bound("x")) if view.has("x") else None
    if shape is None or not view.is_known("perm"):
        return False
    order = [axis % len(shape) for axis in view.integers("perm")]
    order = [axis for axis in order if shape[axis] != 1]
    kept = sorted(order)
    return order != kept and order in ([*kept[1:], *kept[:1]], [*kept[-1:], *kept[:-1]])


def _cuts_rows(view: OpView) -> bool:
    """True where rows change their length, so that they are gathered in pieces."""
    given = next((b for n in ("x", "values") for b in view.inputs.get(n, ()) if b.constant is None), None)
    before = shape_of(given) if given is not None else None
    after = shape_of(view.outputs[0]) if view.outputs else None
    return bool(before and after and len(before) > 2 and len(after) > 2 and before[-1] != after[-1])


def shape_of(value: BoundValue) -> tuple[int | None, ...] | None:
    """The shape of a tensor or of a state; None for anything else."""
    type_ = value.type.wrapped if isinstance(value.type, StateType) else value.type
    return type_.shape if isinstance(type_, TensorType) else None
