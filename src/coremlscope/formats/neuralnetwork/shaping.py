"""Reshaping, transposing, concatenating, splitting, tiling, broadcasting and reversing tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation
from coremlscope.model.ir import TensorType


def at_least_rank_1(b: Builder, blob: Blob) -> Blob:
    """Converts a scalar to a one-element tensor, because no value of a neural network has rank 0."""
    return blob if blob.rank else b.op("reshape", x=blob, shape=[1])


def shape_of(b: Builder, blob: Blob) -> Blob | Sequence[int]:
    """Returns the shape of a tensor, as numbers if it is known."""
    tensor = b.tensor(blob)
    return list(tensor.shape) if None not in tensor.dims else b.op("shape", x=tensor)


def read_shape(b: Builder, blob: Blob) -> Blob:
    """Converts a blob of sizes to a vector of integers.

    Sizes that were joined as scalars with a leading dimension, `[1, 1]` each, are `[n, 1]`.
    """
    sizes = b.indices(b.tensor(blob))
    assert isinstance(sizes.bound.type, TensorType)
    shape = sizes.bound.type.shape
    if shape is None or len(shape) == 1:
        return sizes
    return b.op("reshape", x=sizes, shape=[-1])


# Axes


def _transpose(t: Translation) -> Blob:
    x = t.builder.tensor(t.x)
    axes = [int(axis) for axis in t.params.axes]
    # If there are fewer axes than dimensions, they are trailing ones: images have an additional leading one.
    extra = max(x.rank - len(axes), 0)
    return t.builder.op("transpose", x=x, perm=[*range(extra), *(axis + extra for axis in axes)])


def _expand_dims(t: Translation) -> Blob:
    b, axes = t.builder, [int(axis) for axis in t.params.axes]
    if t.x.is_scalar:
        return b.op("reshape", x=t.x, shape=[1] * len(axes))
    return b.op("expand_dims", x=b.tensor(t.x), axes=axes)


def _squeeze(t: Translation) -> Blob:
    b, x = t.builder, t.builder.tensor(t.x)
    if t.params.squeezeAll:
        return at_least_rank_1(b, b.op("squeeze", x=x))
    axes = {int(axis) % x.rank for axis in t.params.axes}
    if wrong := sorted(axis for axis in axes if x.dims[axis] not in (None, 1)):
        raise CannotTranslate(f"its axis {wrong[0]} of {list(x.dims)} cannot be removed")
    if all(x.dims[axis] == 1 for axis in axes):
        return at_least_rank_1(b, b.op("squeeze", x=x, axes=sorted(axes)))
    # Lengths that are unknown before run time are assumed to be 1.
    every, ends = [True] * x.rank, [0] * x.rank
    gone = [axis in axes for axis in range(x.rank)]
    taken = b.op(
        "slice_by_index", x=x, begin=ends, end=ends, begin_mask=every, end_mask=every, squeeze_mask=gone
    )
    return at_least_rank_1(b, taken)


# Reshaping


def _reshaped(b: Builder, x: Blob, shape: Sequence[int]) -> Blob:
    return b.op("reshape", x=x, shape=list(shape) or [1])


def _reshape_static(t: Translation) -> Blob:
    return _reshaped(t.builder, t.builder.tensor(t.x), [int(d) for d in t.params.targetShape])


def _reshape_like(t: Translation) -> Blob:
    b = t.builder
    return b.op("reshape", x=b.tensor(t.x), shape=shape_of(b, t.inputs[1]))


def _reshape_dynamic(t: Translation) -> Blob:
    b = t.builder
    return b.op("reshape", x=b.tensor(t.x), shape=read_shape(b, t.inputs[1]))


def _rank_preserving_reshape(t: Translation) -> Blob:
    """Reshapes to a shape in which 0 keeps a dimension and -1 is inferred."""
    x, shape = t.builder.tensor(t.x), [int(d) for d in t.params.targetShape]
    if len(shape) != x.rank:
        raise CannotTranslate(f"its shape {shape} does not match a tensor of rank {x.rank}")
    return _reshaped(t.builder, x, shape)


def _flatten(t: Translation) -> Blob:
    x, axis = t.builder.tensor(t.x), int(t.params.axis)
    if not -x.rank <= axis <= x.rank:
        raise CannotTranslate(f"its axis {axis} is out of range for a tensor of rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    if None not in x.dims:
        return _reshaped(t.builder, x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])
    return t.builder.op("flatten2d", x=x, axis=axis)


# Concatenating and splitting


def _concat(t: Translation) -> Blob:
    blobs = _of_one_rank(t.builder, [t.builder.tensor(blob) for blob in t.inputs])
    axis, interleave = int(t.params.axis), bool(t.params.interleave)
    return t.builder.op("concat", values=blobs, axis=axis, interleave=interleave)


def _of_one_rank(b: Builder, blobs: Sequence[Blob]) -> list[Blob]:
    """Removes leading dimensions of length 1 from the tensors of higher rank than others.

    No value has rank 0 here, so a size that is gathered from a shape is `[1]` and, with the dimension that
    converters add to scalars before they join them, `[1, 1]`; the sizes that it is joined with are `[n]`.
    """
    rank = min(blob.rank for blob in blobs)
    extra = [blob.rank - rank for blob in blobs]
    if any(set(blob.dims[:count]) - {1} for blob, count in zip(blobs, extra, strict=True)):
        return list(blobs)
    return [
        b.op("squeeze", x=blob, axes=list(range(count))) if count else blob
        for blob, count in zip(blobs, extra, strict=True)
    ]


def _stack(t: Translation) -> Blob:
    blobs = [t.builder.tensor(blob) for blob in t.inputs]
    return t.builder.op("stack", values=blobs, axis=int(t.params.axis))


def _split(t: Translation) -> Sequence[Blob]:
    b, p, x, count = t.builder, t.params, t.builder.tensor(t.x), len(t.outputs)
    axis, parts = int(p.axis), int(p.numSplits) or count
    sizes = [int(size) for size in p.splitSizes]
    length = x.dims[axis]
    if not sizes and length is not None:
        # The size is not divisible, so the first parts have one more element.
        sizes = [length // parts + (part < length % parts) for part in range(parts)]
    if sizes:
        return b.ops("split", len(sizes), x=x, axis=axis, split_sizes=sizes)
    return b.ops("split", parts, x=x, axis=axis, num_splits=parts)


# Tiling and broadcasting


def _tile(t: Translation) -> Blob:
    """Tiles as NumPy does: repetitions apply to the last axes, and may add leading axes."""
    b, x = t.builder, t.builder.tensor(t.x)
    repetitions = _repetitions(t)
    if isinstance(repetitions, Blob):
        (count,) = repetitions.shape
        missing = x.rank - count
        if missing > 0:
            repetitions = b.op("pad", x=repetitions, pad=[missing, 0], mode="constant", constant_val=1)
    else:
        missing = x.rank - len(repetitions)
        repetitions = [1] * missing + repetitions
    if missing < 0:
        x = b.op("expand_dims", x=x, axes=list(range(-missing)))
    return b.op("tile", x=x, reps=repetitions)


def _repetitions(t: Translation) -> Blob | list[int]:
    if len(t.inputs) == 1:
        return [int(count) for count in t.params.reps]
    given = read_shape(t.builder, t.inputs[1])
    return given if given.array is None else [int(count) for count in given.array]


def _broadcast(b: Builder, x: Blob, shape: Blob | Sequence[int]) -> Blob:
    """Broadcasts `x` to a shape."""
    x = b.tensor(x)
    if isinstance(shape, Blob) or None in x.dims:
        # Adding zeros of the target shape broadcasts.
        return b.op("add", x=x, y=b.op("fill", shape=shape, value=0.0))
    target = np.broadcast_shapes(tuple(shape), x.shape)
    wide = (1,) * (len(target) - x.rank) + x.shape
    if wide != x.shape:
        x = b.op("reshape", x=x, shape=wide)
    if wide == target:
        return b.op("identity", x=x)
    return b.op("tile", x=x, reps=[new // old for new, old in zip(target, wide, strict=True)])


def _broadcast_static(t: Translation) -> Blob:
    return _broadcast(t.builder, t.x, [int(d) for d in t.params.targetShape])


def _broadcast_like(t: Translation) -> Blob:
    return _broadcast(t.builder, t.x, shape_of(t.builder, t.inputs[1]))


def _broadcast_dynamic(t: Translation) -> Blob:
    b = t.builder
    shape = read_shape(b, t.inputs[1])
    known = shape.array
    return _broadcast(b, t.x, shape if known is None else [int(d) for d in known])


# Reversing


def _reverse(t: Translation) -> Blob:
    b, x = t.builder, t.builder.tensor(t.x)
    axes = [axis for axis, is_reversed in enumerate(t.params.reverseDim) if is_reversed]
    return b.op("reverse", x=x, axes=axes)


def _reverse_sequences(t: Translation) -> Blob:
    b = t.builder
    x, lengths = b.tensor(t.x), b.indices(b.tensor(t.inputs[1]))
    p = t.params
    seq_axis, batch_axis = int(p.sequenceAxis), int(p.batchAxis)
    return b.op("reverse_sequence", x=x, lengths=lengths, seq_axis=seq_axis, batch_axis=batch_axis)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("broadcastToDynamic", _broadcast_dynamic, (2, 2)),
    LayerSpec("broadcastToLike", _broadcast_like, (2, 2)),
    LayerSpec("broadcastToStatic", _broadcast_static),
    LayerSpec("concatND", _concat, (1, -1)),
    LayerSpec("expandDims", _expand_dims),
    LayerSpec("flattenTo2D", _flatten),
    LayerSpec("rankPreservingReshape", _rank_preserving_reshape),
    LayerSpec("reshapeDynamic", _reshape_dynamic, (2, 2)),
    LayerSpec("reshapeLike", _reshape_like, (2, 2)),
    LayerSpec("reshapeStatic", _reshape_static),
    LayerSpec("reverse", _reverse),
    LayerSpec("reverseSeq", _reverse_sequences, (2, 2)),
    LayerSpec("splitND", _split),
    LayerSpec("squeeze", _squeeze),
    LayerSpec("stack", _stack, (1, -1)),
    LayerSpec("tile", _tile, (1, 2)),
    LayerSpec("transpose", _transpose),
)
