"""Reductions."""

from __future__ import annotations

from coremlscope.formats.espresso.axes import keep, nd_axis, reduced_axes, refold
from coremlscope.formats.espresso.files import AXES
from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate

#: `mode`: the operation.
_OPERATIONS = {
    0: "reduce_sum",
    1: "reduce_mean",
    2: "reduce_prod",
    4: "reduce_sum_square",
    5: "reduce_l2_norm",
    8: "reduce_l1_norm",
    9: "reduce_max",
    10: "reduce_min",
    11: "reduce_argmax",
    12: "reduce_argmin",
}
_IMAGE = 3


def _reduce(t: Translation) -> Blob:
    b = t.builder
    type_ = t.layer.choice("mode", _OPERATIONS, 0)
    axes = _reduced(t)
    if not axes:
        return keep(b.op("identity", x=t.x), t.x)
    if t.x.sequence is not None and max(-axis for axis in axes) <= _IMAGE:
        return keep(_reduced_along(t, type_, t.x, axes), t.x)
    return refold(b, _reduced_along(t, type_, b.tensor(t.x), axes), t.x)


def _reduced_along(t: Translation, type_: str, x: Blob, axes: list[int]) -> Blob:
    b = t.builder
    if not type_.startswith("reduce_arg"):
        return b.op(type_, x=x, axes=axes, keep_dims=True)
    if len(axes) > 1:
        raise CannotTranslate("it searches along several axes")
    return b.floats(b.op(type_, x=x, axis=axes[0], keep_dims=True))


def _reduced(t: Translation) -> list[int]:
    """Returns the reduced axes as negative indices.

    They are those of which the shapes file shows one element, or else those of the attributes: `nd_axis`, or
    the bits of `axis_mode` from the innermost axis.
    """
    found = reduced_axes(t)
    if found is not None:
        return found
    if t.layer.flag("nd_mode") or "axis_mode" not in t.layer.attributes:
        rank = t.builder.tensor(t.x).rank
        axis = nd_axis(t.layer.integer("nd_axis"), rank)
        return [axis if axis < 0 else axis - rank]
    bits = t.layer.integer("axis_mode")
    axes = [-1 - number for number in range(len(AXES)) if bits >> number & 1]
    if t.layer.integer("use_version", 0) != 1 or not axes:
        raise CannotTranslate(f"the axes of its axis_mode {bits} are unknown")
    return axes


LAYERS: tuple[LayerSpec, ...] = (LayerSpec("reduce", _reduce),)
