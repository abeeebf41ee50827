"""Operators that move, join, cut and select elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.formats.onnx.translation import Operand, Rows, Translation
from coremlscope.model.ir import Constant
from coremlscope.ops.gathering import COUNTED_FROM_END


def _reshape(t: Translation) -> Blob:
    wanted = t.integers(1, "shape")
    assert wanted is not None
    if 0 in wanted and not t.integer("allowzero", 0):
        wanted = [size or t.x.dims[axis] or -1 for axis, size in enumerate(wanted)]
    return t.op("reshape", x=t.x, shape=wanted)


def _flatten(t: Translation) -> Blob:
    axis = t.integer("axis", 1) % (t.x.rank + 1)
    return t.op("reshape", x=t.x, shape=[math.prod(t.x.shape[:axis]), -1])


def _squeeze(t: Translation) -> Blob:
    axes = t.integers(1, "axes")
    if axes is None:
        axes = [axis for axis, size in enumerate(t.x.shape) if size == 1]
    return t.op("squeeze", x=t.x, axes=axes) if axes else t.op("identity", x=t.x)


def _transpose(t: Translation) -> Blob:
    perm = t.integers(99, "perm") or list(range(t.x.rank))[::-1]
    return t.op("transpose", x=t.x, perm=perm)


def _concat(t: Translation) -> Blob:
    values = [operand for operand in t.inputs if operand is not None]
    if len(values) == 1 or all(isinstance(one, Constant) for one in values):
        values[0] = t.value(0)
    return t.op("concat", values=values, axis=t.integer("axis", 1), interleave=False)


def _split(t: Translation) -> Sequence[Blob]:
    axis, count = t.integer("axis", 0), len(t.node.outputs)
    sizes = t.integers(1, "split")
    if sizes is None:
        size = t.x.shape[axis]
        part = -(-size // count)
        sizes = [part] * (count - 1) + [size - part * (count - 1)]
    if count == 1:
        return [t.op("identity", x=t.x)]
    return t.ops("split", count, x=t.x, split_sizes=sizes, axis=axis)


def _slice(t: Translation) -> Blob:
    starts, ends = t.integers(1, "starts"), t.integers(2, "ends")
    if starts is None or ends is None:
        raise CannotTranslate("its starts or ends are missing")
    axes = t.integers(3, "axes") or list(range(len(starts)))
    steps = t.integers(4) or [1] * len(starts)
    rank = t.x.rank
    begin, end, stride, whole = [0] * rank, [0] * rank, [1] * rank, [True] * rank
    for axis, start, stop, step in zip(axes, starts, ends, steps, strict=True):
        size = t.x.dims[axis]
        if size is None:
            raise CannotTranslate("it cuts an unknown dimension")
        places = range(size)[slice(start, None if step < 0 and stop < -size else stop, step)]
        if not places:
            raise CannotTranslate("its result is empty")
        last = places[-1] + (1 if step > 0 else -1)
        begin[axis], stride[axis], whole[axis] = places[0], step, last < 0
        end[axis] = max(last, 0)
    return t.op(
        "slice_by_index",
        x=t.x,
        begin=begin,
        end=end,
        stride=stride,
        end_mask=np.array(whole),
        begin_mask=np.array([False] * rank),
    )


def _gather(t: Translation) -> Blob:
    indices, axis = t.operand(1), t.integer("axis", 0)
    is_scalar = t.shape(1) == ()
    if is_scalar:
        indices = t.op("expand_dims", x=indices, axes=[0])
    result = _counted_from_end(t, "gather", indices)
    return t.op("squeeze", x=result, axes=[axis]) if is_scalar else result


def _gather_elements(t: Translation) -> Blob:
    return _counted_from_end(t, "gather_along_axis", t.operand(1))


def _counted_from_end(t: Translation, type_: str, indices: Operand) -> Blob:
    """Emits an operation whose negative indices count from the end."""
    mark = t.builder.mark
    result = t.op(type_, x=t.operand(0), indices=indices, axis=t.integer("axis", 0), validate_indices=False)
    t.builder.add_attribute(mark, COUNTED_FROM_END)
    return result


def _gather_nd(t: Translation) -> Blob:
    return t.op("gather_nd", x=t.x, indices=t.operand(1), batch_dims=t.integer("batch_dims", 0))


def _scatter_nd(t: Translation) -> Blob:
    mode = {"none": "update"}.get(t.text("reduction", "none"), t.text("reduction", "none"))
    return t.op("scatter_nd", data=t.x, indices=t.operand(1), updates=t.operand(2), mode=mode)


def _expand(t: Translation) -> Blob:
    wanted, x = t.integers(1), t.x
    assert wanted is not None
    if x.rank < len(wanted):
        x = t.op("expand_dims", x=x, axes=list(range(len(wanted) - x.rank)))
    wanted = [1] * (x.rank - len(wanted)) + wanted
    reps = [new if old == 1 else 1 for old, new in zip(x.shape, wanted, strict=True)]
    return t.op("tile", x=x, reps=reps) if math.prod(reps) > 1 else t.op("identity", x=x)


def _pad(t: Translation) -> Blob:
    pads, rank = t.integers(1, "pads"), t.x.rank
    assert pads is not None
    axes = t.integers(3) or list(range(rank))
    half = len(pads) // 2
    amounts = [0] * (2 * rank)
    for index, axis in enumerate(axes):
        amounts[2 * axis], amounts[2 * axis + 1] = pads[index], pads[index + half]
    if min(amounts) < 0:
        raise CannotTranslate("it crops")
    mode = {"edge": "replicate"}.get(t.text("mode", "constant"), t.text("mode", "constant"))
    given = t.array(2)
    value = 0.0 if given is None else float(given.reshape(-1)[0])
    return t.op("pad", x=t.x, pad=amounts, mode=mode, constant_val=t.number("value", value))


def _shape(t: Translation) -> Blob:
    rank = t.x.rank
    whole = t.op("shape", x=t.x)
    places = range(rank)[t.integer("start", 0) : t.integer("end", rank)]
    if len(places) == rank:
        return whole
    return t.op("slice_by_index", x=whole, begin=[places.start], end=[places.stop])


def _fill(t: Translation) -> Blob:
    value = t.node.attributes.get("value")
    shape = t.integers(0)
    assert shape is not None
    if not shape:
        raise CannotTranslate("its result is a scalar")
    number = value.item() if isinstance(value, Constant) else 0.0
    return t.op("fill", shape=shape, value=number)


def _space(type_: str, t: Translation) -> Blob:
    if type_ == "depth_to_space" and t.text("mode", "DCR") == "CRD":
        return t.op("pixel_shuffle", x=t.x, upscale_factor=t.integer("blocksize", 2))
    return t.op(type_, x=t.x, block_size=t.integer("blocksize", 2))


def _tile(t: Translation) -> Blob:
    return t.op("tile", x=t.x, reps=t.integers(1))


def _top(t: Translation) -> Sequence[Blob]:
    k = t.integers(1, "k")
    return t.ops(
        "topk",
        2,
        x=t.x,
        k=(k or [t.integer("k", 1)])[0],
        axis=t.integer("axis", -1),
        ascending=not t.integer("largest", 1),
    )


ROWS: Rows = {
    "Concat": _concat,
    "ConstantOfShape": _fill,
    "CumSum": lambda t: t.op("cumsum", x=t.x, axis=(t.integers(1) or [0])[0]),
    "DepthToSpace": partial(_space, "depth_to_space"),
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "NonZero": lambda t: t.op("transpose", x=t.op("non_zero", x=t.x), perm=[1, 0]),
    "Pad": _pad,
    "Range": lambda t: t.op("range_1d", start=t.operand(0), end=t.operand(1), step=t.operand(2)),
    "Reshape": _reshape,
    "ScatterND": _scatter_nd,
    "Shape": _shape,
    "Slice": _slice,
    "SpaceToDepth": partial(_space, "space_to_depth"),
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "TopK": _top,
    "Transpose": _transpose,
    "Unsqueeze": lambda t: t.op("expand_dims", x=t.x, axes=t.integers(1, "axes")),
}
