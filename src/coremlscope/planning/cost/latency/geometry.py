"""The dimensions of an operation's work, which determine how well a unit is used."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from coremlscope.model.ir import TensorType
from coremlscope.ops import has_traits, traits_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CONTRADICTIONS, BoundValue, CannotInfer, CannotLower, OpView


class Geometry(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of the work.

    Attributes:
        macs: Multiply-adds.
        groups: Groups of channels; for a product of matrices, the number of products.
        in_channels: Channels that each result sums over, in its group.
        out_channels: Channels of the result, in its group.
        height: Rows of the result; for a product of tensors with heads, the batch before these.
        width: The innermost extent of the result; for a product, its rows.
        taps: Positions of the window: 9 for 3×3.
        stride: Step of the window along its last axis.
    """

    macs: int = 0
    groups: int = 1
    in_channels: int = 1
    out_channels: int = 1
    height: int = 1
    width: int = 1
    taps: int = 1
    stride: int = 1

    def with_second_product(self, macs: int) -> Geometry:
        """The geometry of a product followed by another with as many rows."""
        return replace(self, macs=self.macs + macs)


def geometry_of(view: OpView) -> Geometry:
    """The geometry of an operation; a lower bound where a shape is not known before run time."""
    try:
        return _measure_of(view.op.type)(view)
    except (CannotInfer, CannotLower, *CONTRADICTIONS):
        return Geometry()


@functools.cache
def _measure_of(type_: str) -> Callable[[OpView], Geometry]:
    found = (_GEOMETRY_OF_TRAIT[trait] for trait in traits_of(type_) if trait in _GEOMETRY_OF_TRAIT)
    return next(found, _plain)


def _known(value: BoundValue) -> tuple[int, ...]:
    type_ = value.type
    if not isinstance(type_, TensorType) or type_.shape is None:
        raise CannotInfer("the shape is not known")
    return tuple(1 if d is None else d for d in type_.shape)


def _convolution(view: OpView) -> Geometry:
    weight, result = _known(view.bound("weight")), _known(view.outputs[0])
    given = _known(view.bound("x"))
    groups = view.integer("groups", 1)
    taps = math.prod(weight[2:])
    strides = view.integers("strides", [1] * (len(weight) - 2))
    spatial = result[2:]
    if has_traits(view.op.type, Trait.TRANSPOSED):
        in_channels, out_channels, points = weight[0] // groups, weight[1], given[2:]
    else:
        in_channels, out_channels, points = weight[1], weight[0] // groups, spatial
    return Geometry(
        macs=result[0] * groups * in_channels * out_channels * taps * math.prod(points),
        groups=groups,
        in_channels=in_channels,
        out_channels=out_channels,
        height=result[0] * math.prod(spatial[:-1]),
        width=spatial[-1],
        taps=taps,
        stride=strides[-1],
    )


def _linear(view: OpView) -> Geometry:
    weight, result = _known(view.bound("weight")), _known(view.outputs[0])
    rows = math.prod(result[:-1])
    width = result[-2] if len(result) > 1 else 1
    return Geometry(
        macs=rows * weight[0] * weight[1],
        groups=1,
        in_channels=weight[1],
        out_channels=weight[0],
        height=rows // max(width, 1),
        width=width,
    )


def _product(view: OpView) -> Geometry:
    return _einsum(view) if view.has("equation") else _matmul(view)


def _matmul(view: OpView) -> Geometry:
    given, result = _known(view.bound("x")), _known(view.outputs[0])
    inner = given[-2 if view.flag("transpose_x", False) else -1]
    batch = math.prod(result[:-2])
    rows, columns = (*result, 1)[-2:] if len(result) < 2 else result[-2:]
    return Geometry(
        macs=math.prod(result) * inner,
        groups=batch,
        in_channels=inner,
        out_channels=columns,
        height=_batch(result),
        width=rows,
    )


def _batch(shape: tuple[int, ...]) -> int:
    """The batch of (batch, heads, rows, columns); 1 with fewer axes, where it may be heads."""
    return shape[0] if len(shape) > 3 else 1


def _einsum(view: OpView) -> Geometry:
    first, result = _known(view.bound("values")), _known(view.outputs[0])
    left, _, rest = view.text("equation").replace(" ", "").partition(",")
    summed = set(left) - set(rest.partition("->")[2])
    inner = math.prod(size for letter, size in zip(left, first, strict=False) if letter in summed)
    return Geometry(
        macs=math.prod(result) * inner,
        groups=result[0],
        in_channels=inner,
        out_channels=result[-1],
        height=_batch(result),
        width=math.prod(result[1:-1]),
    )


def _attention(view: OpView) -> Geometry:
    query, key, value = (_known(view.bound(name)) for name in ("query", "key", "value"))
    batch = math.prod(query[:-2])
    rows, columns = query[-2], key[-2]
    return Geometry(
        macs=batch * rows * columns * (query[-1] + value[-1]),
        groups=batch,
        in_channels=query[-1],
        out_channels=columns,
        height=_batch(query),
        width=rows,
    )


def _recurrent(view: OpView) -> Geometry:
    given = _known(view.bound("x"))
    inner, outer = _known(view.bound("weight_ih")), _known(view.bound("weight_hh"))
    macs = given[0] * given[1] * (math.prod(inner) + math.prod(outer))
    return Geometry(
        macs=macs,
        groups=1,
        in_channels=inner[-1] + outer[-1],
        out_channels=inner[0],
        height=given[0],
        width=given[1],
    )


def _pool(view: OpView) -> Geometry:
    plain = _plain(view)
    return replace(plain, taps=math.prod(view.integers("kernel_sizes")))


def _plain(view: OpView) -> Geometry:
    """For operations without products: channels and extents of the larger of argument and result."""
    shapes = [_known(value) for value in view.outputs]
    shapes += [
        _known(bound)
        for given in view.inputs.values()
        for bound in given
        if bound.constant is None and isinstance(bound.type, TensorType) and bound.type.shape is not None
    ]
    shape = max(shapes, key=math.prod)
    if len(shape) < 3:
        return Geometry(out_channels=math.prod(shape))
    channels = shape[1] if len(shape) > 3 else shape[0]
    inner = shape[2:] if len(shape) > 3 else shape[1:]
    return Geometry(out_channels=channels, height=shape[0] * math.prod(inner[:-1]), width=inner[-1])


_GEOMETRY_OF_TRAIT: dict[Trait, Callable[[OpView], Geometry]] = {
    Trait.CONVOLUTION: _convolution,
    Trait.LINEAR: _linear,
    Trait.MATRIX_PRODUCT: _product,
    Trait.ATTENTION: _attention,
    Trait.RECURRENCE: _recurrent,
    Trait.POOLING: _pool,
}
