"""Operations that move elements: shapes, slices, concatenations, paddings, gathering and sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from coremlscope.formats.aimodel.content import BlockContent
from coremlscope.formats.aimodel.elementwise import is_boolean
from coremlscope.formats.aimodel.translation import Operand, Row, Translation, dims_of, known
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.model.ir import Constant, DType
from coremlscope.ops.gathering import COUNTED_FROM_END

#: Core ML's paddings by the number of the attribute `padding_mode`; it has no circular or symmetric one.
PADDINGS = {1: "constant", 2: "reflect", 3: "replicate"}
#: Core ML's forms of scattering by the number of the attribute `scatter_mode`.
_SCATTERS = ("update", "add", "sub", "mul", "div", "max", "min")
#: Core ML's forms of scattering by the operation that combines two values; the order of these is no matter.
_COMBINATIONS = {"add": "add", "mul": "mul", "maximum": "max", "minimum": "min"}
#: The number of the sum among the forms of `scan`.
_SUM = 0


def _reshape(t: Translation) -> Operand:
    return t.builder.op("reshape", x=t.x, shape=t.shape_of(1))


def _transpose(t: Translation) -> Operand:
    return t.builder.op("transpose", x=t.x, perm=t.integers(1))


def _expand_dims(t: Translation) -> Operand:
    return t.builder.op("expand_dims", x=t.x, axes=t.integers(1))


def _shrink_dims(t: Translation) -> Operand:
    return t.builder.op("squeeze", x=t.x, axes=t.integers(1))


def _concat(t: Translation) -> Operand:
    """Concatenates; the first argument is the axis."""
    values = [t.tensor(index) for index in range(1, len(t.inputs))]
    return t.builder.op("concat", values=values, axis=t.integer(0), interleave=False)


def _split(t: Translation) -> Sequence[Operand]:
    axis, sizes = t.integer(2), t.integers(1)
    if len(sizes) == 1 and len(t.types) > 1:
        sizes = sizes * len(t.types)
    if len(sizes) == 1:
        return [t.x]
    return t.builder.ops("split", len(t.types), x=t.x, split_sizes=sizes, axis=axis)


def _slice(t: Translation) -> Operand:
    """Takes a part of each axis. Ends are limited to the axes, as in Core AI."""
    begin, end, stride = t.shape_of(1), t.shape_of(2), t.shape_of(3)
    if isinstance(end, list) and isinstance(begin, list) and isinstance(stride, list):
        dims = dims_of(t.x)
        # An end beyond the axis, such as 2³¹ - 1, is the length of the axis.
        masks = [
            stop >= (size if size is not None else 1 << 30) for stop, size in zip(end, dims, strict=True)
        ]
        end = [0 if mask else stop for stop, mask in zip(end, masks, strict=True)]
        return t.builder.op(
            "slice_by_index", x=t.x, begin=begin, end=end, stride=stride, end_mask=np.array(masks)
        )
    return t.builder.op("slice_by_index", x=t.x, begin=begin, end=end, stride=stride)


def _slice_update(t: Translation) -> Operand:
    return t.builder.op(
        "slice_update",
        x=t.x,
        update=t.tensor(4),
        begin=t.shape_of(1),
        end=t.shape_of(2),
        stride=t.shape_of(3),
    )


def _tile(t: Translation) -> Operand:
    return t.builder.op("tile", x=t.x, reps=t.shape_of(1))


def _reverse(t: Translation) -> Operand:
    return t.builder.op("reverse", x=t.x, axes=t.integers(1))


def _pad(t: Translation) -> Operand:
    mode = PADDINGS.get(t.choice("padding_mode"))
    if mode is None:
        raise CannotTranslate("Core ML has no circular or symmetric padding")
    value = t.array(2).reshape(-1)[0] if mode == "constant" else None
    amounts = t.integers(1)
    first = next((index for index, amount in enumerate(amounts) if amount), len(amounts)) // 2 * 2
    if first == len(amounts):
        return t.x
    return t.builder.op("pad", x=t.x, pad=amounts[first:], mode=mode, constant_val=value)


def _get_shape(t: Translation) -> Operand:
    return t.builder.op("shape", x=t.x)


def _broadcast_shapes(t: Translation) -> Operand:
    """Returns the shape to which two shapes broadcast: the larger of each pair of dimensions."""
    b = t.builder
    shapes = [t.x, t.tensor(1)]
    ranks = [dims_of(shape)[0] for shape in shapes]
    if None in ranks:
        raise CannotTranslate("the rank of a shape is not known")
    rank = max(size or 0 for size in ranks)
    for index, size in enumerate(ranks):
        missing = rank - (size or 0)
        if missing:
            ones = b.op("identity", x=np.ones(missing, np.int32))
            padded = [ones, b.op("cast", x=shapes[index], dtype=DType.INT32.value)]
            shapes[index] = b.op("concat", values=padded, axis=0, interleave=False)
    return b.op("maximum", x=shapes[0], y=shapes[1])


def _broadcast_to(t: Translation) -> Operand:
    """Repeats elements along axes of length 1."""
    b, shape, dims = t.builder, t.shape_of(1), dims_of(t.x)
    if isinstance(shape, list) and tuple(shape) == dims:
        return t.x
    if isinstance(shape, list) and None not in dims:
        return _repeated(t, t.x, [size or 0 for size in dims], shape)
    if is_boolean(t.x):
        return b.op("logical_or", x=t.x, y=b.op("cast", x=b.op("fill", shape=shape, value=0), dtype="bool"))
    zero = np.zeros((), t.dtype.numpy) if t.dtype.is_float else np.int32(0)
    return b.op("add", x=t.x, y=b.op("fill", shape=shape, value=np.asarray(zero)))


def _repeated(t: Translation, x: Blob | Constant, dims: list[int], shape: list[int]) -> Operand:
    whole = [1] * (len(shape) - len(dims)) + dims
    if len(whole) != len(shape) or any(old not in (1, new) for old, new in zip(whole, shape, strict=True)):
        raise CannotTranslate(f"a tensor of shape {dims} cannot be broadcast to {shape}")
    if math.prod(whole) == math.prod(shape):
        return t.builder.op("reshape", x=x, shape=shape)
    wide = x if len(whole) == len(dims) else t.builder.op("reshape", x=x, shape=whole)
    reps = [new if old == 1 else 1 for old, new in zip(whole, shape, strict=True)]
    return t.builder.op("tile", x=wide, reps=reps)


def _broadcast_in_dims(t: Translation) -> Operand:
    """Repeats elements along the given axes, which have a length of 1."""
    b, sizes, axes, rank = t.builder, t.shape_of(1), t.integers(2), len(dims_of(t.x))
    if isinstance(sizes, list):
        reps = [1] * rank
        for axis, size in zip(axes, sizes, strict=True):
            reps[axis % rank] = size
        return b.op("tile", x=t.x, reps=reps)
    parts = [b.op("identity", x=np.ones(1, np.int32))] * rank
    for place, axis in enumerate(axes):
        parts[axis % rank] = b.op("slice_by_index", x=sizes, begin=[place], end=[place + 1])
    return b.op("tile", x=t.x, reps=b.op("concat", values=parts, axis=0, interleave=False))


# Gathering and sorting


def _indexed(t: Translation, emit: Callable[[], Blob]) -> Blob:
    """Emits an operation with indices, of which negative ones count from the end."""
    mark = t.builder.mark
    result = emit()
    t.builder.add_attribute(mark, COUNTED_FROM_END)
    return result


def _gather_nd(t: Translation) -> Operand:
    """Gathers along the first axes. Indices of a single axis, as of embeddings, are a plain gather."""
    indices = t.tensor(1)
    dims = dims_of(indices)
    if dims and dims[-1] == 1:
        single = t.builder.op("squeeze", x=indices, axes=[-1])
        return _indexed(t, lambda: t.builder.op("gather", x=t.x, indices=single, axis=0))
    return _indexed(t, lambda: t.builder.op("gather_nd", x=t.x, indices=indices))


def _gather_along_axis(t: Translation) -> Operand:
    indices, axis = t.tensor(1), t.integer(2)
    return _indexed(t, lambda: t.builder.op("gather_along_axis", x=t.x, indices=indices, axis=axis))


def _scatter_along_axis(t: Translation) -> Operand:
    number = t.choice("scatter_mode")
    if number >= len(_SCATTERS):
        raise CannotTranslate(f"form {number} of scattering is not known")
    return _indexed(
        t,
        lambda: t.builder.op(
            "scatter_along_axis",
            data=t.x,
            indices=t.tensor(1),
            updates=t.tensor(2),
            axis=t.integer(3),
            mode=_SCATTERS[number],
        ),
    )


def scatter_nd(t: Translation, block: BlockContent) -> Operand:
    """Emits writes to places of the first argument.

    Args:
        t: The operation, with what is written into, the places, and what is written.
        block: What becomes of an element, its first argument, and of what is written there.

    Raises:
        CannotTranslate: Core ML does not combine them so, or sizes are not known before run time.
    """
    data, indices, updates = t.tensor(0), t.tensor(1), t.tensor(2)
    places = dims_of(indices)
    if not places or places[-1] is None:
        raise CannotTranslate("the number of its indices is not known before run time")
    wanted = (*places[:-1], *dims_of(data)[places[-1] :])
    if len(dims_of(updates)) != len(wanted):
        if None in wanted:
            raise CannotTranslate("the size of what it writes is not known before run time")
        updates = t.builder.op("reshape", x=updates, shape=[size or 0 for size in wanted])
    mode = _combination(block)
    return _indexed(
        t, lambda: t.builder.op("scatter_nd", data=data, indices=indices, updates=updates, mode=mode)
    )


def _combination(block: BlockContent) -> str:
    """Returns Core ML's name of what a block of two arguments computes."""
    *ops, end = block.ops
    if not ops and len(block.arguments) == 2 and list(end.operands) == [block.arguments[1]]:
        return "update"
    is_whole = len(ops) == 1 and list(end.operands) == list(ops[0].results)
    name = _COMBINATIONS.get(ops[0].name.removeprefix("broadcasting_")) if is_whole else None
    if name is None or set(ops[0].operands) != set(block.arguments):
        raise CannotTranslate("Core ML does not combine values in this way")
    return name


def _argsort(t: Translation) -> Operand:
    return t.builder.op("argsort", x=t.x, axis=t.integer(1), ascending=not t.flag(2))


def _sort(t: Translation) -> Sequence[Operand]:
    b, axis = t.builder, t.integer(1)
    indices = b.op("argsort", x=t.x, axis=axis, ascending=not t.flag(2))
    return [b.op("gather_along_axis", x=t.x, indices=indices, axis=axis), indices][: len(t.types)]


def _scan(t: Translation) -> Operand:
    """Sums all elements up to each one."""
    if t.choice("scan_op") != _SUM:
        raise CannotTranslate("Core ML accumulates only sums")
    return t.builder.op("cumsum", x=t.x, axis=t.integer(1), reverse=t.flag(2), exclusive=False)


def _range(t: Translation) -> Operand:
    start, stop, step = (known(t.tensor(index)) for index in range(3))
    given = [t.tensor(i) if a is None else a.reshape(-1)[0] for i, a in enumerate((start, stop, step))]
    return t.builder.op("range_1d", start=given[0], end=given[1], step=given[2])


def _non_zero(t: Translation) -> Operand:
    return t.builder.op("non_zero", x=t.x)


#: Operations that move elements by name.
ROWS: dict[str, Row] = {
    "reshape": Row(_reshape, (2, 2)),
    "transpose": Row(_transpose, (2, 2)),
    "expand_dims": Row(_expand_dims, (2, 2)),
    "shrink_dims": Row(_shrink_dims, (2, 2)),
    "concat": Row(_concat, (2, -1)),
    "split": Row(_split, (3, 3)),
    "slice": Row(_slice, (4, 4)),
    "slice_update": Row(_slice_update, (5, 5)),
    "tile": Row(_tile, (2, 2)),
    "reverse": Row(_reverse, (2, 2)),
    "pad": Row(_pad, (3, 3)),
    "get_shape": Row(_get_shape, (1, 1)),
    "broadcast_shapes": Row(_broadcast_shapes, (2, 2)),
    "broadcast_to": Row(_broadcast_to, (2, 2)),
    "broadcast_in_dims": Row(_broadcast_in_dims, (3, 3)),
    "gather_nd": Row(_gather_nd, (2, 2)),
    "gather_along_axis": Row(_gather_along_axis, (3, 3)),
    "scatter_along_axis": Row(_scatter_along_axis, (4, 4)),
    "argsort": Row(_argsort, (4, 4)),
    "sort": Row(_sort, (4, 4)),
    "scan": Row(_scan, (3, 3)),
    "range": Row(_range, (3, 3)),
    "non_zero": Row(_non_zero, (1, 1)),
}
