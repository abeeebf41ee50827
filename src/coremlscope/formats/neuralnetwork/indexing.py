"""The gather and scatter families. Negative indices count from the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.shaping import at_least_rank_1
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translate, Translation

#: MIL's names for `ScatterMode`, by number.
_MODES = ("update", "add", "sub", "mul", "div", "max", "min")


def _from_front(b: Builder, indices: Blob, data: Blob, axes: Sequence[int]) -> Blob:
    """Converts indices along axes of `data` to nonnegative integers."""
    whole = b.indices(b.tensor(indices))
    lengths = [data.dims[axis] for axis in axes]
    known = whole.array
    if known is not None and not np.signbit(known).any():
        return whole
    if None in lengths:
        shape = b.op("gather", x=b.op("shape", x=data), indices=[axis % data.rank for axis in axes], axis=0)
        return b.op("mod", x=whole, y=shape)
    if 0 in lengths:
        raise CannotTranslate(f"its indices are invalid for an axis of length 0 of {list(data.dims)}")
    # The remainder has the sign of the divisor.
    return b.op("mod", x=whole, y=lengths[0] if len(lengths) == 1 else np.array(lengths, np.int32))


def _axis(t: Translation, rank: int) -> int:
    axis = int(t.params.axis)
    if not -rank <= axis < rank:
        raise CannotTranslate(f"its axis {axis} is out of range for a tensor of rank {rank}")
    return axis


def _gather(type_: str) -> Translate:
    def translate(t: Translation) -> Blob:
        b, x = t.builder, t.builder.tensor(t.x)
        axis = _axis(t, x.rank)
        return b.op(type_, x=x, indices=_from_front(b, t.inputs[1], x, [axis]), axis=axis)

    return translate


def _index_vectors(b: Builder, indices: Blob, data: Blob) -> Blob:
    """Converts indices whose last axis contains one index for each of the first axes of `data`."""
    indices = b.tensor(indices)
    depth = indices.dims[-1]
    if depth is None or depth > data.rank:
        raise CannotTranslate(
            f"it has indices of shape {list(indices.dims)} for a tensor of rank {data.rank}"
        )
    return _from_front(b, indices, data, range(depth))


def _gather_nd(t: Translation) -> Blob:
    b, x = t.builder, t.builder.tensor(t.x)
    return at_least_rank_1(b, b.op("gather_nd", x=x, indices=_index_vectors(b, t.inputs[1], x)))


def _scatter(type_: str) -> Translate:
    def translate(t: Translation) -> Blob:
        b = t.builder
        data, updates = b.tensor(t.x), b.tensor(t.inputs[2])
        axis = _axis(t, data.rank)
        indices = _from_front(b, t.inputs[1], data, [axis])
        mode = _MODES[t.params.mode]
        return b.op(type_, data=data, indices=indices, updates=updates, axis=axis, mode=mode)

    return translate


def _scatter_nd(t: Translation) -> Blob:
    b = t.builder
    data, updates = b.tensor(t.x), b.tensor(t.inputs[2])
    indices = _index_vectors(b, t.inputs[1], data)
    return b.op("scatter_nd", data=data, indices=indices, updates=updates, mode=_MODES[t.params.mode])


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("gather", _gather("gather"), (2, 2)),
    LayerSpec("gatherAlongAxis", _gather("gather_along_axis"), (2, 2)),
    LayerSpec("gatherND", _gather_nd, (2, 2)),
    LayerSpec("scatter", _scatter("scatter"), (3, 3)),
    LayerSpec("scatterAlongAxis", _scatter("scatter_along_axis"), (3, 3)),
    LayerSpec("scatterND", _scatter_nd, (3, 3)),
)
