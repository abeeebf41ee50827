"""Slices of tensors by parameters, by inputs and by size, and sliding windows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.shaping import at_least_rank_1
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation


def _static(t: Translation) -> Blob:
    p = t.params
    rank = t.builder.tensor(t.x).rank
    slices = _Slices(
        begin=[int(i) for i in p.beginIds],
        end=[int(i) for i in p.endIds],
        stride=[int(s) for s in p.strides] or [1] * rank,
        begin_mask=_mask(p.beginMasks, rank),
        end_mask=_mask(p.endMasks, rank),
        squeeze=_mask(p.squeezeMasks, rank),
    )
    return slices.taken(t.builder, t.builder.tensor(t.x))


def _dynamic(t: Translation) -> Blob:
    """Slices with `begin` as an input. Other arguments are inputs if present, and otherwise parameters."""
    b, p, x = t.builder, t.params, t.builder.tensor(t.x)
    names = ("endIds", "strides", "beginMasks", "endMasks", "squeezeMasks")
    given: list[Blob | list[int]] = [_numbers(b, t.inputs[1])]
    for name, blob in zip(names, (*t.inputs[2:], *[None] * len(names)), strict=False):
        # By default, coremltools writes five elements for any number of axes.
        given.append([int(v) for v in getattr(p, name)][: x.rank] if blob is None else _numbers(b, blob))
    begin, end, stride, begin_mask, end_mask, squeeze = given
    if isinstance(squeeze, Blob):
        raise CannotTranslate("its squeezed axes are unknown before run time")
    fixed = [stride, begin_mask, end_mask]
    if any(isinstance(value, Blob) for value in fixed):
        return _by_ranges(b, x, given)
    strides, begin_masks, end_masks = ([*value] for value in fixed if not isinstance(value, Blob))
    slices = _Slices(
        begin=begin,
        end=end,
        stride=strides or [1] * x.rank,
        begin_mask=_mask(begin_masks, x.rank),
        end_mask=_mask(end_masks, x.rank),
        squeeze=_mask(squeeze, x.rank),
    )
    return slices.taken(b, x)


def _numbers(b: Builder, blob: Blob) -> Blob | list[int]:
    """Returns an input of integers, as numbers if they are known."""
    whole = b.indices(b.tensor(blob))
    return whole if whole.array is None else [int(v) for v in whole.array.reshape(-1)]


def _mask(given: Sequence[int | bool], rank: int) -> list[bool]:
    return [bool(v) for v in given] or [False] * rank


class _Slices(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a slice, with one element per axis."""

    begin: Blob | list[int]
    end: Blob | list[int]
    stride: list[int]
    begin_mask: list[bool]
    end_mask: list[bool]
    squeeze: list[bool]

    def taken(self, b: Builder, x: Blob) -> Blob:
        result = b.op(
            "slice_by_index",
            x=x,
            begin=self.begin,
            end=self.end,
            stride=self.stride,
            begin_mask=self.begin_mask,
            end_mask=self.end_mask,
            squeeze_mask=self.squeeze,
        )
        # coremltools' tests of Core ML expect that axes are added to an element of a vector as to a number.
        return replace(at_least_rank_1(b, result), is_scalar=not result.rank)


def _by_ranges(b: Builder, x: Blob, given: Sequence[Blob | list[int]]) -> Blob:
    """Slices with strides or masks that are unknown before run time, by gathering indices on each axis."""
    begin, end, stride, begin_mask, end_mask, squeeze = given
    lengths = b.op("shape", x=x)
    forwards = b.op("greater", x=stride, y=0)
    low = b.op("select", cond=forwards, a=0, b=-1)
    high = b.op("add", x=lengths, y=low)

    def bound(given: Blob | list[int], mask: Blob | list[int], if_forwards: Blob, else_: Blob) -> Blob:
        negative = b.op("less", x=given, y=0)
        counted = b.op("select", cond=negative, a=b.op("add", x=given, y=lengths), b=given)
        clamped = b.op("minimum", x=b.op("maximum", x=counted, y=low), y=high)
        furthest = b.op("select", cond=forwards, a=if_forwards, b=else_)
        return b.op("select", cond=b.op("not_equal", x=mask, y=0), a=furthest, b=clamped)

    no = [0] * x.rank
    starts = bound(begin, begin_mask or no, low, high)
    stops = bound(end, end_mask or no, high, low)
    squeezed = [axis for axis, is_left_out in enumerate(_list(squeeze)) if is_left_out]
    for axis in range(x.rank):
        start, stop, step = (_one(b, vector, axis) for vector in (starts, stops, stride))
        indices = start if axis in squeezed else b.op("range_1d", start=start, end=stop, step=step)
        x = b.op("gather", x=x, indices=b.op("reshape", x=indices, shape=[-1]), axis=axis)
    return at_least_rank_1(b, b.op("squeeze", x=x, axes=squeezed)) if squeezed else x


def _list(given: Blob | list[int]) -> list[int]:
    assert not isinstance(given, Blob)
    return given


def _one(b: Builder, vector: Blob | list[int], axis: int) -> Blob:
    """Returns one element of a vector."""
    taken = b.op("slice_by_index", x=vector, begin=[axis], end=[axis + 1])
    return b.op("reshape", x=taken, shape=[])


# Slices by size, and sliding windows


def _by_size(t: Translation) -> Blob:
    """A slice of fixed size along one axis, which begins at an input."""
    b, p, x = t.builder, t.params, t.builder.tensor(t.x)
    axis = int(p.axis)
    if not -x.rank <= axis < x.rank:
        raise CannotTranslate(f"its axis {axis} is out of range for a tensor of rank {x.rank}")
    axis %= x.rank
    at = b.op("reshape", x=b.indices(t.inputs[1]), shape=[1])
    begin = b.op("pad", x=at, pad=[axis, x.rank - 1 - axis], mode="constant", constant_val=0)
    size = [int(p.size) if a == axis else -1 if d is None else d for a, d in enumerate(x.dims)]
    return b.op("slice_by_size", x=x, begin=begin, size=size)


def _windows(t: Translation) -> Blob:
    p, x = t.params, t.builder.tensor(t.x)
    size, stride = int(p.windowSize), int(p.step)
    return t.builder.op("sliding_windows", x=x, axis=int(p.axis), size=size, stride=stride)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("sliceBySize", _by_size, (2, 2)),
    LayerSpec("sliceDynamic", _dynamic, (2, 7)),
    LayerSpec("sliceStatic", _static),
    LayerSpec("slidingWindows", _windows),
)
