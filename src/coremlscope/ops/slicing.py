"""Slices of tensors: reads and replaces them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array, TensorType, ValueType
from coremlscope.ops.emit import I64, Lowering, Tensor
from coremlscope.ops.folding import folding
from coremlscope.ops.infer import same_as
from coremlscope.ops.spec import OpSpec, Work, bytes_of, moved_output
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, OpView

#: Bounds that ONNX reads as "to the end", in either direction.
_LAST, _FIRST = 2**63 - 1, -(2**63)


class _Slices(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `slice_by_index`, one entry per axis; `begin` and `end` are None where not known."""

    begin: list[int] | None
    end: list[int] | None
    stride: list[int]
    begin_mask: list[bool]
    end_mask: list[bool]
    squeeze: list[bool]

    @classmethod
    def of(cls, view: OpView) -> _Slices:
        rank = len(view.shape("x"))

        def flags(name: str) -> list[bool]:
            return [bool(v) for v in view.integers(name, [0] * rank)]

        slices = cls(
            begin=view.integers("begin") if view.is_known("begin") else None,
            end=view.integers("end") if view.is_known("end") else None,
            stride=view.integers("stride", [1] * rank),
            begin_mask=flags("begin_mask"),
            end_mask=flags("end_mask"),
            squeeze=flags("squeeze_mask"),
        )
        for name in cls.__struct_fields__:
            given = getattr(slices, name)
            if given is not None and len(given) != rank:
                raise CannotInfer(f"`{name}` holds {len(given)} elements for a tensor of rank {rank}")
        if 0 in slices.stride:
            raise CannotInfer("a stride is 0")
        return slices

    def python(self, axis: int) -> slice | None:
        """The slice of one axis as Python writes it; None where it is not known."""
        stride = self.stride[axis]
        if self.squeeze[axis]:
            begin = self.bound(self.begin, self.begin_mask, axis)
            if begin is _UNKNOWN:
                return None
            assert begin is None or isinstance(begin, int)
            start = begin or 0
            return slice(start, start + 1 if start != -1 else None, 1)
        begin = self.bound(self.begin, self.begin_mask, axis)
        end = self.bound(self.end, self.end_mask, axis)
        if begin is _UNKNOWN or end is _UNKNOWN:
            return None
        return slice(begin, end, stride)

    @staticmethod
    def bound(values: list[int] | None, mask: list[bool], axis: int) -> int | object | None:
        if mask[axis]:
            return None
        return _UNKNOWN if values is None else values[axis]

    def is_full(self, axis: int) -> bool:
        """True where the whole axis is taken in order."""
        return self.python(axis) in (slice(None, None, 1), slice(0, None, 1)) and not self.squeeze[axis]

    def has_begin(self, axis: int) -> bool:
        """True where the begin of an axis is known."""
        return self.bound(self.begin, self.begin_mask, axis) is not _UNKNOWN

    def step(self, axis: int) -> int:
        """The elements from one that is taken to the next."""
        return 1 if self.squeeze[axis] else self.stride[axis]

    def first(self, axis: int, length: int) -> int:
        """The place of the first element that is taken of an axis of a length, whose begin is known."""
        begin = self.bound(self.begin, self.begin_mask, axis)
        assert begin is None or isinstance(begin, int)
        if self.squeeze[axis]:
            return (begin or 0) + (length if (begin or 0) < 0 else 0)
        return slice(begin, None, self.stride[axis]).indices(length)[0]

    def squeezed(self) -> list[int]:
        """The indexed axes, which the result does not have."""
        return [axis for axis, squeezed in enumerate(self.squeeze) if squeezed]


_UNKNOWN = object()


def _sliced_dim(taken: slice | None, dim: int | None, stride: int) -> int | None:
    """How many elements a slice takes of an axis, where that can be known."""
    if taken is None:
        return None
    if dim is not None:
        return len(range(*taken.indices(dim)))
    begin, end = taken.start, taken.stop
    if begin is None and end is None:
        return None
    if end is None and begin is not None:
        # The last element forwards, or the first one backwards.
        return 1 if (begin == -1 and stride > 0) or (begin == 0 and stride < 0) else None
    if begin is not None and end is not None and (begin < 0) == (end < 0):
        # Of an axis of unknown length, at most this many; exactly as many where it is 0 or 1.
        count = len(range(begin, end, stride))
        return count if count in (0, 1) else None
    return None


def _infer_slice_by_index(view: OpView) -> Sequence[ValueType]:
    slices, shape = _Slices.of(view), view.shape("x")
    dims = tuple(
        _sliced_dim(slices.python(axis), dim, slices.stride[axis])
        for axis, dim in enumerate(shape)
        if not slices.squeeze[axis]
    )
    for axis in slices.squeezed():
        taken, dim = slices.python(axis), shape[axis]
        if taken is not None and dim is not None and not -dim <= taken.start < dim:
            raise CannotInfer(f"index {taken.start} lies outside axis {axis} of length {dim}")
    return [TensorType(view.type("x").dtype, dims)]


def _begins(op: Lowering, slices: _Slices) -> Tensor:
    """Begin of every axis as ONNX requires it: masked axes filled in."""
    head = [0 if stride > 0 else _LAST for stride in slices.stride]
    if slices.begin is None:
        begin = op.int64("begin")
        if any(slices.begin_mask):
            begin = op.emit("Where", op.const(slices.begin_mask, bool), op.const(head, I64), begin)
        return begin
    return op.const(np.where(slices.begin_mask, head, slices.begin), I64)


def _bounds(op: Lowering, slices: _Slices) -> tuple[Tensor, Tensor]:
    """Begin and end of every axis as ONNX requires them: masked and indexed axes filled in."""
    rank = len(slices.stride)
    tail = [_LAST if stride > 0 else _FIRST for stride in slices.stride]
    begin = _begins(op, slices)
    if slices.end is None:
        end = op.int64("end")
        if any(slices.end_mask):
            end = op.emit("Where", op.const(slices.end_mask, bool), op.const(tail, I64), end)
    else:
        end = op.const([tail[i] if slices.end_mask[i] else slices.end[i] for i in range(rank)], I64)
    if any(slices.squeeze):
        after = op.emit("Add", begin, op.const(1, I64))
        # The element after the last one, -1, is not 0 but the end.
        is_last = op.emit("Equal", after, op.const(0, I64), dtype=bool)
        after = op.emit("Where", is_last, op.const(_LAST, I64), after)
        end = op.emit("Where", op.const(slices.squeeze, bool), after, end)
    return begin, end


def _known_bounds(slices: _Slices, axes: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Begin and end of the axes as ONNX requires them, where all are known."""
    begins, ends = [], []
    for axis in axes:
        taken = slices.python(axis)
        if taken is None:
            return None
        forwards = slices.squeeze[axis] or slices.stride[axis] > 0
        begins.append(taken.start if taken.start is not None else 0 if forwards else _LAST)
        ends.append(taken.stop if taken.stop is not None else _LAST if forwards else _FIRST)
    return begins, ends


def _lower_slice_by_index(op: Lowering) -> Tensor:
    slices, x = _Slices.of(op.view), op["x"]
    strides = [1 if squeezed else s for s, squeezed in zip(slices.stride, slices.squeeze, strict=True)]
    axes = [axis for axis in range(len(strides)) if not slices.is_full(axis)]
    known = _known_bounds(slices, axes)
    if known is not None and axes:
        begin, end = op.const(known[0], I64), op.const(known[1], I64)
    elif axes:
        axes = list(range(len(strides)))
        begin, end = _bounds(op, slices)
    else:
        return x
    steps = [strides[axis] for axis in axes]
    x = op.emit("Slice", x, begin, end, op.const(axes, I64), op.const(steps, I64))
    return op.squeeze(x, slices.squeezed())


def _fold_slice_by_index(view: OpView) -> Array:
    slices, x = _Slices.of(view), view.value("x")
    taken = tuple(slices.python(axis) for axis in range(x.ndim))
    return np.squeeze(x[taken], axis=tuple(slices.squeezed()))


# slice_by_size


def _infer_slice_by_size(view: OpView) -> Sequence[ValueType]:
    shape = view.shape("x")
    dims: list[int | None] = [None] * len(shape)
    if view.is_known("size"):
        begins = view.integers("begin") if view.is_known("begin") else None
        for axis, size in enumerate(view.integers("size")):
            dim = shape[axis]
            if size != -1:
                dims[axis] = size
            elif begins is not None and dim is not None:
                dims[axis] = dim - begins[axis] if begins[axis] >= 0 else -begins[axis]
    return [TensorType(view.type("x").dtype, tuple(dims))]


def _lower_slice_by_size(op: Lowering) -> Tensor:
    view = op.view
    last = op.const(_LAST, I64)
    if view.is_known("begin") and view.is_known("size"):
        begins, sizes = view.integers("begin"), view.integers("size")
        ends = [
            _LAST if size == -1 or (begin < 0 and begin + size >= 0) else begin + size
            for begin, size in zip(begins, sizes, strict=True)
        ]
        begin, end = op.const(begins, I64), op.const(ends, I64)
    else:
        zero = op.const(0, I64)
        begin, size = op.int64("begin"), op.int64("size")
        end = op.emit("Add", begin, size)
        from_back = op.emit("Less", begin, zero, dtype=bool)
        passes = op.emit("And", from_back, op.emit("GreaterOrEqual", end, zero, dtype=bool), dtype=bool)
        rest = op.emit("Equal", size, op.const(-1, I64), dtype=bool)
        end = op.emit("Where", op.emit("Or", passes, rest, dtype=bool), last, end)
    return op.emit("Slice", op["x"], begin, end, op.const(range(len(view.shape("x"))), I64))


def _fold_slice_by_size(view: OpView) -> Array:
    taken = []
    for begin, size in zip(view.integers("begin"), view.integers("size"), strict=True):
        end = begin + size
        taken.append(slice(begin, None if size == -1 or (begin < 0 and end >= 0) else end))
    return view.value("x")[tuple(taken)]


# slice_update


def _absolute(op: Lowering, bound: Tensor, length: Tensor, lowest: int, highest: int) -> Tensor:
    """A bound counted from the front, clamped between `lowest` and `length + highest`."""
    negative = op.emit("Less", bound, op.const(0, I64), dtype=bool)
    bound = op.emit("Where", negative, op.emit("Add", bound, length), bound)
    most = op.emit("Add", length, op.const(highest, I64)) if highest else length
    return op.emit("Min", op.emit("Max", bound, op.const(lowest, I64)), most)


def _update_axis(
    op: Lowering,
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    stride: int,
    axis: int,
    rest: Callable[[Tensor], Tensor],
) -> Tensor:
    """`x` with a slice along `axis` replaced by `rest` of that slice."""
    length = op.emit("Shape", x, dtype=I64, start=axis, end=axis + 1)
    at = op.const([axis], I64)
    if stride == 1:
        begin = _absolute(op, begin, length, 0, 0)
        end = op.emit("Max", _absolute(op, end, length, 0, 0), begin)
        inner = rest(op.emit("Slice", x, begin, end, at))
        before = op.emit("Slice", x, op.const([0], I64), begin, at)
        after = op.emit("Slice", x, end, op.const([_LAST], I64), at)
        return op.emit("Concat", before, inner, after, axis=axis)
    steps = op.const([stride], I64)
    inner = rest(op.emit("Slice", x, begin, end, at, steps))
    numbers = op.emit("Range", op.const(0, I64), op.squeeze(length, [0]), op.const(1, I64))
    taken = op.emit("Slice", numbers, begin, end, op.const([0], I64), steps)
    rank = len(op.view.shape("x"))
    taken = op.unsqueeze(taken, [other for other in range(rank) if other != axis])
    taken = op.emit("Expand", taken, op.shape_of(inner))
    return op.emit("ScatterElements", x, taken, inner, axis=axis)


def _between(
    op: Lowering, x: Tensor, ends: tuple[int, int], length: int, axis: int, rest: Callable[[Tensor], Tensor]
) -> Tensor:
    """`x` with the elements between known ends along `axis` replaced."""

    def part(begin: int, end: int) -> Tensor:
        return op.emit("Slice", x, op.const([begin], I64), op.const([end], I64), op.const([axis], I64))

    begin, end = ends
    parts = [part(0, begin)] if begin else []
    parts.append(rest(part(begin, end)))
    parts += [part(end, length)] if end < length else []
    return op.emit("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


class _Rest:
    """The updated slice: the remaining axes are updated one by one, then the update is in place."""

    def __init__(self, op: Lowering, slices: _Slices, axes: Sequence[int], update: Tensor) -> None:
        self.op, self.slices, self.axes, self.update = op, slices, axes, update

    def __call__(self, x: Tensor) -> Tensor:
        op, slices = self.op, self.slices
        if not self.axes:
            return self.update
        axis, *others = self.axes
        rest = _Rest(op, slices, others, self.update)
        known, length = _known_bounds(slices, [axis]), op.view.shape("x")[axis]
        if known is not None:
            if length is not None and (slices.squeeze[axis] or slices.stride[axis] == 1):
                first, last, _ = slice(known[0][0], known[1][0]).indices(length)
                return _between(op, x, (first, max(first, last)), length, axis, rest)
            begin, end = op.const(known[0], I64), op.const(known[1], I64)
        else:
            every = _bounds(op, slices)
            begin, end = (
                op.emit("Slice", b, op.const([axis], I64), op.const([axis + 1], I64)) for b in every
            )
        stride = 1 if slices.squeeze[axis] else slices.stride[axis]
        return _update_axis(op, x, begin, end, stride, axis, rest)


#: An update is scattered if the tensor has at least so many elements for each of its own.
_SCATTERED = 4


def _scattered(op: Lowering, slices: _Slices, axes: Sequence[int], update: Tensor) -> Tensor | None:
    """`x` with the rows of a small update written over its own, which ONNX Runtime does in place.

    A cache of a language model is then not copied by each layer. Rows are those of the axes after the last
    one that is sliced; they are numbered in order.

    Returns:
        The tensor, of the shape and type of `x`. None if the update is not small, is empty or does not fit,
        or if sizes are known at run time only, or begins of slices in reverse order.
    """
    lengths, counts = op.view.shape("x"), _counts(op.view, slices)
    depth = max(axes, default=-1) + 1
    dynamic = [axis for axis in axes if not slices.has_begin(axis)]
    if depth == 0 or None in lengths or counts is None or any(slices.step(axis) < 0 for axis in dynamic):
        return None
    shape = [length or 0 for length in lengths]
    if not 0 < math.prod(counts) * _SCATTERED <= math.prod(shape):
        return None
    width = math.prod(shape[depth:])
    rows = np.zeros([1] * depth, np.int64)
    for axis, count in enumerate(counts[:depth]):
        first = 0 if axis in dynamic else slices.first(axis, shape[axis])
        places = first + slices.step(axis) * np.arange(count, dtype=np.int64)
        if not 0 <= places.min() <= places.max() < shape[axis]:
            return None
        pitch = _pitch(shape, axis, depth)
        rows = rows + np.expand_dims(places * pitch, [a for a in range(depth) if a != axis])
    indices = op.const(rows.reshape(-1, 1), I64)
    if dynamic:
        indices = op.emit("Add", indices, _first_row(op, slices, dynamic, counts, depth))
    indices = op.emit("Expand", indices, op.const([rows.size, width], I64))
    flat = op.emit("Reshape", op["x"], op.const([-1, width], I64))
    update = op.emit("Reshape", update, op.const([rows.size, width], I64))
    written = op.emit("ScatterElements", flat, indices, update, axis=0)
    return op.emit("Reshape", written, op.const(shape, I64))


def _counts(view: OpView, slices: _Slices) -> list[int] | None:
    """The elements of the update along every axis of `x`; None if they are known at run time only."""
    sizes = iter(view.shape("update"))
    counts = [1 if squeezed else next(sizes, None) for squeezed in slices.squeeze]
    known = [count for count in counts if count is not None]
    return known if len(known) == len(counts) else None


def _pitch(shape: Sequence[int], axis: int, depth: int) -> int:
    """The rows from one element of an axis to the next."""
    return math.prod(shape[axis + 1 : depth])


def _first_row(
    op: Lowering, slices: _Slices, dynamic: Sequence[int], counts: Sequence[int], depth: int
) -> Tensor:
    """The row at the begins that come at run time, counted from 0 along all other axes.

    An update that does not fit behind its begin, as in a full cache, gets a row that does not exist, which
    is an error of the engine: it would be written over other rows.
    """
    shape = [length or 0 for length in op.view.shape("x")]
    axes = op.const(dynamic, I64)
    begin = op.emit("Gather", _begins(op, slices), axes)
    lengths = op.const([shape[axis] for axis in dynamic], I64)
    is_negative = op.emit("Less", begin, op.const(0, I64), dtype=bool)
    begin = op.emit("Where", is_negative, op.emit("Add", begin, lengths), begin)
    begin = op.emit("Max", begin, op.const(0, I64))
    most = [shape[axis] - 1 - slices.step(axis) * (counts[axis] - 1) for axis in dynamic]
    pitches = [_pitch(shape, axis, depth) for axis in dynamic]
    rows = op.emit("Mul", begin, op.const(pitches, I64))
    is_beyond = op.emit("Greater", begin, op.const(most, I64), dtype=bool)
    rows = op.emit("Where", is_beyond, op.const(math.prod(shape[:depth]), I64), rows)
    return op.emit("ReduceSum", rows, op.const([0], I64), keepdims=0)


def _lower_slice_update(op: Lowering) -> Tensor:
    slices = _Slices.of(op.view)
    axes = [axis for axis in range(len(slices.stride)) if not slices.is_full(axis)]
    update = op.unsqueeze(op["update"], slices.squeezed())
    scattered = _scattered(op, slices, axes, update)
    return scattered or _Rest(op, slices, axes, update)(op["x"])


def _slice_update_work(view: OpView) -> Work:
    """The update read and written once."""
    size, known = bytes_of(view.type("update"))
    return Work(flops=0, read_bytes=size, weight_bytes=0, written_bytes=size, is_complete=known)


def _fold_slice_update(view: OpView) -> Array:
    slices, x = _Slices.of(view), view.value("x").copy()
    taken = tuple(slices.python(axis) for axis in range(x.ndim))
    x[taken] = view.value("update").reshape(x[taken].shape)
    return x


def _infer_slice_update(view: OpView) -> Sequence[ValueType]:
    slices, shape = _Slices.of(view), view.shape("x")
    update = view.type("update").shape
    kept = [axis for axis in range(len(shape)) if not slices.squeeze[axis]]
    if update is not None and len(update) != len(kept):
        raise CannotInfer(f"an update of rank {len(update)} for a slice of rank {len(kept)}")
    for axis, given in zip(kept, update or (), strict=False):
        wanted = _sliced_dim(slices.python(axis), shape[axis], slices.stride[axis])
        if None not in (wanted, given) and wanted != given:
            raise CannotInfer(f"an update of {given} elements for a slice of {wanted} along axis {axis}")
    return same_as("x")(view)


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="slice_by_index",
        doc="A part of a tensor: from begin to end with a stride, axis by axis.",
        traits=Trait.SLICE,
        infer=_infer_slice_by_index,
        lower=_lower_slice_by_index,
        work=moved_output,
        fold=folding(_fold_slice_by_index),
    ),
    OpSpec(
        name="slice_by_size",
        doc="A part of a tensor: a number of elements from a begin, axis by axis.",
        traits=Trait.SLICE,
        infer=_infer_slice_by_size,
        lower=_lower_slice_by_size,
        work=moved_output,
        fold=folding(_fold_slice_by_size),
    ),
    OpSpec(
        name="slice_update",
        doc="A tensor with a part of it replaced.",
        traits=Trait.UPDATE,
        infer=_infer_slice_update,
        lower=_lower_slice_update,
        work=_slice_update_work,
        fold=folding(_fold_slice_update),
    ),
)
