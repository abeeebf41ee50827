"""Reshaping, transposing, joining, splitting and slicing of blobs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from coremlscope.formats.espresso.attributes import CompiledLayer
from coremlscope.formats.espresso.axes import axis_from_end, grown_axis, keep, nd_axis, refold
from coremlscope.formats.espresso.files import AXES
from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.espresso.weights import read_floats
from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.rank_5 import fold

_CHANNELS = -3
#: The batch and sequence axes keep their place in a transposition.
_KEPT = [3, 4]


def _copy(t: Translation) -> Blob:
    return keep(t.builder.op("identity", x=t.x), t.x)


# Reshaping


def _reshape(t: Translation) -> Blob:
    """Reshapes to `dst_*`, in which 0 keeps a size and -1 is inferred."""
    b, layer, x = t.builder, t.layer, t.x
    if layer.flag("dynamic_shape"):
        raise CannotTranslate("its shape is computed at run time")
    is_last = layer.integer("mode", 0) != 0
    if x.sequence is None:
        target = _target(layer, x.shape, _rank(t))
        if is_last and (x.rank != len(AXES) or len(target) != len(AXES)):
            raise CannotTranslate("the order of its elements is unknown for tensors of other ranks than 5")
        return _reordered(b, x, target) if is_last else b.op("reshape", x=x, shape=target)
    merged, *image = x.shape
    batch = merged // max(x.sequence, 1)
    sequence, count, *rest = _target(layer, (x.sequence, batch, *image), len(AXES))
    images, shape = replace(x, sequence=None), [sequence * count, *rest]
    result = _reordered(b, images, shape) if is_last else b.op("reshape", x=images, shape=shape)
    return replace(result, sequence=sequence)


def _reordered(b: Builder, x: Blob, shape: Sequence[int]) -> Blob:
    """Reshapes with the channels as the innermost axis in the order of elements."""
    before = list(range(x.rank - 3))
    last = b.op("transpose", x=x, perm=[*before, *(len(before) + axis for axis in (1, 2, 0))])
    *outer, k, h, w = shape
    reshaped = b.op("reshape", x=last, shape=[*outer, h, w, k])
    return b.op("transpose", x=reshaped, perm=[*before, *(len(before) + axis for axis in (2, 0, 1))])


def _rank(t: Translation) -> int:
    """Returns the rank of a layer's result."""
    if not t.is_exact:
        return len(AXES)
    if "dst_nd_rank" in t.layer.attributes:
        return t.layer.size("dst_nd_rank")
    expected = t.expected[0]
    if expected is None or expected.rank is None:
        raise CannotTranslate("the rank of its result is unknown")
    return expected.rank


def _target(layer: CompiledLayer, sizes: Sequence[int], rank: int) -> list[int]:
    if rank > len(AXES):
        raise CannotTranslate(f"its shape has {rank} dimensions")
    given = [layer.integer(f"dst_{axis}", 1) for axis in AXES[len(AXES) - rank :]]
    kept = [sizes[i - rank] if size == 0 and rank - i <= len(sizes) else size for i, size in enumerate(given)]
    known = math.prod(size for size in kept if size != -1)
    if min(kept) < -1 or kept.count(-1) > 1 or known < 1 or math.prod(sizes) % known:
        raise CannotTranslate(f"its shape {given} does not match {math.prod(sizes)} elements")
    return [math.prod(sizes) // known if size == -1 else size for size in kept]


def _flatten(t: Translation) -> Blob:
    b, layer, x = t.builder, t.layer, t.x
    expected = t.expected[0]
    is_matrix = expected is None or expected.rank == 2 or x.rank < 4
    if x.sequence is None and is_matrix:
        axis = nd_axis(layer.integer("nd_axis", 0), x.rank) % x.rank
        shape = [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])]
        return b.op("reshape", x=x, shape=shape)
    images = b.images(x)
    if layer.integer("mode", 0):  # channels last
        images = b.op("transpose", x=images, perm=[0, 2, 3, 1])
    shape = [images.shape[0], math.prod(images.shape[1:]), 1, 1]
    return b.like(b.op("reshape", x=images, shape=shape), x)


def _transpose(t: Translation) -> Blob:
    """Permutes axes: `axis_h` is the axis of the input that becomes the height of the result."""
    b, layer = t.builder, t.layer
    numbers = [layer.integer(f"axis_{axis}", number) for number, axis in enumerate(reversed(AXES))]
    x = t.x
    if x.sequence is not None and numbers[3:] == _KEPT:
        perm = [0, *(3 - number for number in reversed(numbers[:3]))]
        if sorted(perm) != [0, 1, 2, 3]:
            raise CannotTranslate(f"its axes {numbers} are not a permutation")
        return keep(b.op("transpose", x=replace(x, sequence=None), perm=perm), x)
    tensor = b.tensor(x)
    rank = tensor.rank
    perm = [rank - 1 - number for number in reversed(numbers[:rank])]
    if sorted(perm) != list(range(rank)):
        raise CannotTranslate(f"its axes {numbers} are not a permutation of {rank} axes")
    return refold(b, b.op("transpose", x=tensor, perm=perm), x)


def _axes(layer: CompiledLayer) -> list[int]:
    count = layer.integer("size_of_axes", 1)
    if not 0 < count <= len(AXES):
        raise CannotTranslate(f"it has {count} axes")
    return [layer.integer(f"axes_{index}") for index in range(count)]


def _expand_dims(t: Translation) -> Blob:
    return t.builder.op("expand_dims", x=t.builder.tensor(t.x), axes=_axes(t.layer))


def _squeeze(t: Translation) -> Blob:
    return t.builder.op("squeeze", x=t.builder.tensor(t.x), axes=_axes(t.layer))


def _tile(t: Translation) -> Blob:
    b, x = t.builder, t.builder.tensor(t.x)
    if x.rank > len(AXES):
        raise CannotTranslate(f"its input has {x.rank} dimensions")
    times = [t.layer.size(f"dst_{axis}", 1) for axis in AXES[len(AXES) - x.rank :]]
    return refold(b, b.op("tile", x=x, reps=times), t.x)


# Joining and splitting


def _together(b: Builder, blobs: Sequence[Blob]) -> tuple[list[Blob], bool]:
    """Returns blobs in one layout, and whether they are folded."""
    if len({blob.sequence for blob in blobs}) == 1:
        return [replace(blob, sequence=None) for blob in blobs], blobs[0].sequence is not None
    return [b.tensor(blob) for blob in blobs], False


def _concat(t: Translation) -> Blob:
    """Joins blobs along the channels, or along the axis that the shapes file shows."""
    b, found = t.builder, grown_axis(t, t.layer.inputs, t.layer.outputs[0])
    axis = _CHANNELS if found is None else found
    if found is None and "axis" in t.layer.attributes:
        axis = nd_axis(t.layer.integer("axis"), t.x.rank)
        t.doubt("the meaning of its attribute axis is not established where the shapes do not show it")
    blobs, is_folded = _together(b, t.inputs)
    if not is_folded:
        return b.op("concat", values=blobs, axis=axis)
    if axis >= _CHANNELS:
        return keep(b.op("concat", values=blobs, axis=axis), t.x)
    return fold(b, b.op("concat", values=[b.tensor(blob) for blob in t.inputs], axis=axis))


def _sequence_concat(t: Translation) -> Blob:
    b, inputs = t.builder, t.inputs
    if all(blob.sequence is not None for blob in inputs):
        joined = b.op("concat", values=[replace(blob, sequence=None) for blob in inputs], axis=0)
        return replace(joined, sequence=sum(blob.sequence or 0 for blob in inputs))
    blobs = [b.tensor(blob) for blob in inputs]
    if any(blob.rank != len(AXES) for blob in blobs):
        raise CannotTranslate("its inputs have no sequence")
    return b.op("concat", values=blobs, axis=0)


def _stack(t: Translation) -> Blob:
    blobs = [t.builder.tensor(blob) for blob in t.inputs]
    return t.builder.op("stack", values=blobs, axis=t.layer.integer("nd_axis"))


def _split_nd(t: Translation) -> Sequence[Blob]:
    b, x = t.builder, t.builder.tensor(t.x)
    return [refold(b, part, t.x) for part in _parts(t, x, nd_axis(t.layer.integer("nd_axis"), x.rank))]


def _split(t: Translation) -> Sequence[Blob]:
    return [keep(part, t.x) for part in _parts(t, t.x, _CHANNELS)]


def _parts(t: Translation, x: Blob, axis: int) -> Sequence[Blob]:
    """Splits along an axis into parts of the sizes in the shapes file, or else of equal sizes."""
    count, length = len(t.layer.outputs), x.shape[axis]
    place = axis if axis < 0 else axis - x.rank
    shapes = [shape.sizes[place] for shape in t.expected if shape is not None]
    if len(shapes) == count and sum(shapes) == length:
        return t.builder.ops("split", count, x=x, axis=axis, split_sizes=shapes)
    if any(t.layer.integer(name) for name in t.layer.attributes if name.startswith("begin_")):
        raise CannotTranslate("the sizes of its parts are unknown")
    return t.builder.ops("split", count, x=x, axis=axis, num_splits=count)


def _slice(t: Translation) -> Blob:
    """Takes a range of an axis. An end beyond the axis is its end."""
    b, layer = t.builder, t.layer
    x = t.x if t.x.sequence is not None and layer.integer("axis") < 3 else b.tensor(t.x)
    axis = x.rank + axis_from_end(layer.integer("axis"), x.rank)
    size = x.shape[axis]
    start, stop, step = slice(
        layer.integer("start", 0), layer.integer("end", size), layer.size("stride", 1)
    ).indices(size)
    begin, end, strides = [0] * x.rank, list(x.shape), [1] * x.rank
    begin[axis], end[axis], strides[axis] = start, stop, step
    result = b.op("slice_by_index", x=x, begin=begin, end=end, stride=strides)
    return keep(result, x) if x.sequence is not None else refold(b, result, t.x)


# Borders


def _general_padding(t: Translation) -> Blob:
    layer = t.layer
    if layer.integer("pad_fill_mode", 0):
        t.doubt("the meaning of its attribute pad_fill_mode is not established")
    mode = layer.choice("pad_pad_mode", {0: "constant", 1: "reflect", 2: "replicate"}, 0)
    amounts = [layer.integer(f"pad_{side}", 0) for side in "tblr"]
    value = float(layer.number("pad_value", 0))
    return keep(t.builder.op("pad", x=t.x, pad=amounts, mode=mode, constant_val=value), t.x)


def _crop(t: Translation) -> Blob:
    top, bottom, left, right = (t.layer.integer(side, 0) for side in "tblr")
    result = t.builder.op("crop", x=t.x, crop_height=[top, bottom], crop_width=[left, right])
    return keep(result, t.x)


def _load_constant(t: Translation) -> Blob:
    b, layer = t.builder, t.layer
    rank = layer.size("nd_rank", _constant_rank(t))
    if rank > len(AXES):
        raise CannotTranslate(f"its constant has {rank} dimensions")
    shape = [layer.size(axis, 1) for axis in AXES]
    if math.prod(shape[: len(shape) - rank]) != 1:
        raise CannotTranslate(f"its shape {shape} does not have {rank} dimensions")
    value = b.op("identity", x=read_floats(t, layer.attributes.get("constant_blob"), shape[-rank:]))
    return value if t.is_exact else fold(b, value)


def _constant_rank(t: Translation) -> int:
    expected = t.expected[0]
    return len(AXES) if expected is None or expected.rank is None else expected.rank


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("concat", _concat, inputs=(1, -1)),
    LayerSpec("copy", _copy),
    LayerSpec("crop", _crop),
    LayerSpec("expand_dims", _expand_dims),
    LayerSpec("flatten", _flatten),
    LayerSpec("general_concat", _concat, inputs=(1, -1)),
    LayerSpec("general_padding", _general_padding),
    LayerSpec("load_constant", _load_constant, inputs=(0, 0)),
    LayerSpec("reshape", _reshape),
    LayerSpec("sequence_concat", _sequence_concat, inputs=(1, -1)),
    LayerSpec("slice", _slice),
    LayerSpec("split", _split),
    LayerSpec("split_nd", _split_nd),
    LayerSpec("squeeze", _squeeze),
    LayerSpec("stack_nd", _stack, inputs=(1, -1)),
    LayerSpec("tile", _tile),
    LayerSpec("transpose", _transpose),
)
