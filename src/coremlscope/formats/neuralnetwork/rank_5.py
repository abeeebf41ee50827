"""Layers that are defined for rank-5 blobs: sequence, batch, channels, height, width."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.weights import read_weights

#: `ReduceAxis`: CHW, HW, C, H and W.
_AXES = ([-3, -2, -1], [-2, -1], [-3], [-2], [-1])
#: MIL's operations for `ReduceOperation`, by number. A sum of logarithms and argmax are translated
#: separately.
_REDUCTIONS = {
    0: "reduce_sum",
    1: "reduce_mean",
    2: "reduce_prod",
    4: "reduce_sum_square",
    5: "reduce_l1_norm",
    6: "reduce_l2_norm",
    7: "reduce_max",
    8: "reduce_min",
}
_LOG_SUM, _ARGMAX = 3, 9
_EPSILON = 1e-6


def _images(t: Translation) -> Blob:
    """Returns the input with all dimensions before its channels merged."""
    return t.builder.images(t.x)


def _flatten(t: Translation) -> Blob:
    b, images = t.builder, _images(t)
    if t.params.mode:  # channels last
        images = b.op("transpose", x=images, perm=[0, 2, 3, 1])
    count = math.prod(images.shape[1:])
    return b.like(b.op("reshape", x=images, shape=(images.shape[0], count, 1, 1)), t.x)


def _reshape(t: Translation) -> Blob:
    """Reshapes to `[C, H, W]` with an unchanged sequence, or to a new sequence of such images."""
    b, x = t.builder, _five(t)
    count, channels, height, width = _target([int(size) for size in t.params.targetShape], x)
    images = replace(x, sequence=None)
    if t.params.mode:  # channels last
        images = b.op("transpose", x=images, perm=[0, 2, 3, 1])
        images = b.op("reshape", x=images, shape=(count, height, width, channels))
        result = b.op("transpose", x=images, perm=[0, 3, 1, 2])
    else:
        result = b.op("reshape", x=images, shape=(count, channels, height, width))
    is_new_sequence = len(t.params.targetShape) == 4
    return _as_given(b, replace(result, sequence=count if is_new_sequence else x.sequence), t.x)


def _target(given: list[int], x: Blob) -> list[int]:
    """Returns the target shape, including the dimensions before the images. -1 is inferred."""
    if len(given) not in (3, 4):
        raise CannotTranslate(f"its target shape has {len(given)} dimensions instead of 3 or 4")
    if len(given) == 4 and _batch(x) != 1:
        raise CannotTranslate("it changes the sequence of a batch of several items")
    target = given if len(given) == 4 else [x.shape[0], *given]
    elements, known = math.prod(x.shape), math.prod(size for size in target if size != -1)
    if target.count(-1) > 1 or known < 1 or elements % known:
        raise CannotTranslate(f"its target shape {given} does not match {elements} elements")
    return [elements // known if size == -1 else size for size in target]


def _permute(t: Translation) -> Blob:
    """Permutes sequence, channels, height and width. The batch axis is unchanged."""
    b, axes = t.builder, [int(axis) for axis in t.params.axis] or [0, 1, 2, 3]
    if sorted(axes) != [0, 1, 2, 3]:
        raise CannotTranslate(f"its axes {axes} are not a permutation of four axes")
    x = _five(t)
    if axes[0] == 0 or _batch(x) == 1:
        result = b.op("transpose", x=replace(x, sequence=None), perm=axes)
        sequence = x.sequence if axes[0] == 0 else result.shape[0]
        return _as_given(b, replace(result, sequence=sequence), t.x)
    places = [axis + 1 if axis else 0 for axis in axes]
    result = b.op("transpose", x=b.tensor(x), perm=[places[0], 1, *places[1:]])
    return _as_given(b, fold(b, result), t.x)


def _five(t: Translation) -> Blob:
    """Returns the input as a folded rank-5 blob; see `Blob.sequence`."""
    b, x = t.builder, t.x
    if x.sequence is not None:
        return x
    if x.rank != 5:
        raise CannotTranslate(f"its input has {x.rank} dimensions, but 5 are required")
    return fold(b, x)


def fold(b: Builder, x: Blob) -> Blob:
    """Folds sequence and batch of a tensor with five dimensions."""
    sequence = x.shape[0]
    return replace(b.images(x), sequence=sequence)


def _as_given(b: Builder, result: Blob, source: Blob) -> Blob:
    """Unfolds the result if the source was not folded."""
    return b.tensor(result) if source.sequence is None else result


def _batch(x: Blob) -> int:
    return x.shape[0] // max(x.sequence or 1, 1)


def _concat(t: Translation) -> Blob:
    """Concatenates along the channels, or along the sequence."""
    b, blobs = t.builder, t.inputs
    is_held = all(blob.sequence is not None for blob in blobs)
    if not is_held:
        blobs = tuple(b.tensor(blob) for blob in blobs)
    if not t.params.sequenceConcat:
        return replace(b.op("concat", values=blobs, axis=-3), sequence=blobs[0].sequence)
    if not is_held and blobs[0].rank < 5:
        raise CannotTranslate(f"its input of rank {blobs[0].rank} has no sequence")
    result = b.op("concat", values=blobs, axis=0 if is_held else -5)
    return replace(result, sequence=sum(blob.sequence or 0 for blob in blobs) if is_held else None)


def _split(t: Translation) -> Sequence[Blob]:
    b, x, count = t.builder, t.x, int(t.params.nOutputs) or len(t.outputs)
    parts = b.ops("split", count, x=x, num_splits=count, axis=-3)
    return [replace(part, sequence=x.sequence) for part in parts]


#: An index beyond the end of every axis.
_FARTHEST = 2**31 - 1


def _slice(t: Translation) -> Blob:
    b, p, x = t.builder, t.params, t.x
    axis = x.rank - 3 + p.axis
    if axis < 0:
        raise CannotTranslate(f"its axis is out of range for a tensor of rank {x.rank}")
    size = x.dims[axis]
    step = int(p.stride) or 1
    if size is None:
        start, stop = (min(index, _FARTHEST) for index in (p.startIndex, p.endIndex))
    else:
        start, stop, _ = slice(p.startIndex, p.endIndex, step).indices(size)
    begin, end, strides = [0] * x.rank, [0] * x.rank, [1] * x.rank
    begin[axis], end[axis], strides[axis] = start, stop, step
    others = [other != axis for other in range(x.rank)]
    result = b.op(
        "slice_by_index", x=x, begin=begin, end=end, stride=strides, begin_mask=others, end_mask=others
    )
    return replace(result, sequence=x.sequence)


def _sequence_repeat(t: Translation) -> Blob:
    x, times = t.x, int(t.params.nRepetitions) or 1
    if x.sequence is None and x.rank < 5:
        raise CannotTranslate(f"its input of rank {x.rank} has no sequence")
    reps = [1] * x.rank
    reps[0 if x.sequence is not None else -5] = times
    result = t.builder.op("tile", x=x, reps=reps)
    return replace(result, sequence=None if x.sequence is None else times * x.sequence)


def _reduce(t: Translation) -> Blob:
    b, p, x = t.builder, t.params, t.x
    axes = _AXES[p.axis]
    if x.rank < -axes[0]:
        raise CannotTranslate(f"its axes are out of range for a tensor of rank {x.rank}")
    if p.mode == _ARGMAX:
        if len(axes) > 1:
            raise CannotTranslate("argmax along several axes is not supported")
        result = b.floats(b.op("reduce_argmax", x=x, axis=axes[0], keep_dims=True))
    elif p.mode == _LOG_SUM:
        logarithms = b.op("log", x=x, epsilon=float(p.epsilon) or _EPSILON)
        result = b.op("reduce_sum", x=logarithms, axes=axes, keep_dims=True)
    else:
        result = b.op(_REDUCTIONS[p.mode], x=x, axes=axes, keep_dims=True)
    return replace(result, sequence=x.sequence)


def _load_constant(t: Translation) -> Blob:
    shape = tuple(int(size) for size in t.params.shape)
    if len(shape) != 3:
        raise CannotTranslate(f"its constant has {len(shape)} dimensions instead of 3")
    loaded = t.builder.op("identity", x=read_weights(t.params.data, (1, *shape), channel_axis=1))
    return replace(t.builder.floats(loaded), sequence=1)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("concat", _concat, inputs=(1, -1)),
    LayerSpec("flatten", _flatten),
    LayerSpec("loadConstant", _load_constant, inputs=(0, 0)),
    LayerSpec("permute", _permute),
    LayerSpec("reduce", _reduce),
    LayerSpec("reshape", _reshape),
    LayerSpec("sequenceRepeat", _sequence_repeat),
    LayerSpec("slice", _slice),
    LayerSpec("split", _split),
)
