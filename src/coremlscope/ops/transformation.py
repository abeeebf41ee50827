"""Operations that change a tensor's shape or the order of its axes: reshape, transpose, squeeze, …"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array, Shape, TensorType, ValueType
from coremlscope.ops.emit import I64, Lowering, Tensor
from coremlscope.ops.folding import folding
from coremlscope.ops.infer import normal_axis
from coremlscope.ops.spec import OpSpec, free, moved_output
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView

if TYPE_CHECKING:
    import numpy.typing as npt

#: From this opset on (iOS 17), a 0 in the shape of `reshape` counts its dimension from the right.
_RIGHT_ALIGNED_ZEROS = 7


def product(dims: Sequence[int | None]) -> int | None:
    """The product of dimensions; None where one is not known."""
    known = [d for d in dims if d is not None]
    return math.prod(known) if len(known) == len(dims) else None


# reshape, reshape_like, flatten2d


def _zero_source(view: OpView, index: int, length: int, rank: int) -> int | None:
    """The axis of `x` that a 0 at `index` of a shape of `length` stands for; None stands for 1."""
    axis = index + rank - length if view.opset >= _RIGHT_ALIGNED_ZEROS else index
    if 0 <= axis < rank:
        return axis
    if view.opset >= _RIGHT_ALIGNED_ZEROS:
        return None
    raise CannotInfer(f"a 0 at {index} of `shape` has no dimension to stand for in a tensor of rank {rank}")


def _reshape_dims(view: OpView) -> Shape | None:
    """The shape that `reshape` gives; None where not even the rank is known."""
    x = view.type("x")
    if not view.is_known("shape"):
        length = view.shape("shape")
        return None if length[0] is None else (None,) * length[0]
    wanted = view.integers("shape")
    if wanted.count(-1) > 1:
        raise CannotInfer(f"shape {wanted} contains more than one -1")
    dims: list[int | None] = list(wanted)
    for index, dim in enumerate(wanted):
        if dim == 0:
            if x.shape is None:
                dims[index] = None
                continue
            source = _zero_source(view, index, len(wanted), len(x.shape))
            dims[index] = 1 if source is None else x.shape[source]
    if -1 in wanted:
        hole = wanted.index(-1)
        rest = product([d for i, d in enumerate(dims) if i != hole])
        total = x.elements
        dims[hole] = total // rest if total is not None and rest else None
    if x.elements is not None and product(dims) not in (None, x.elements):
        raise CannotInfer(f"{list(x.shape or ())} does not reshape to {wanted}")
    return tuple(dims)


def _infer_reshape(view: OpView) -> Sequence[ValueType]:
    return [TensorType(view.type("x").dtype, _reshape_dims(view))]


def _reshape_to(op: Lowering, x: Tensor, shape: Shape) -> Tensor | None:
    """`x` in a shape of which at most one dimension is unknown; None where more are."""
    if shape.count(None) > 1 or (None in shape and 0 in shape):
        return None
    dims = [-1 if d is None else d for d in shape]
    # Without `allowzero`, a 0 in the shape means to keep the dimension.
    return op.emit("Reshape", x, op.const(dims, I64), allowzero=1 if 0 in dims else None)


def _lower_reshape(op: Lowering) -> Tensor:
    view = op.view
    x, shape = op["x"], view.output_type().shape
    if shape is not None and (view.is_known("shape") or view.output_type().is_static):
        result = _reshape_to(op, x, shape)
        if result is not None:
            return result
    target = op.int64("shape")
    rank, length = view.type("x").rank, view.shape("shape")[0]
    if view.opset >= _RIGHT_ALIGNED_ZEROS and rank is not None and length is not None and rank != length:
        own = op.shape_of(x)
        if length > rank:
            own = op.emit("Concat", op.const([1] * (length - rank), I64), own, axis=0)
        else:
            own = op.emit("Slice", own, op.const([rank - length], I64), op.const([rank], I64))
        target = op.emit("Where", op.emit("Equal", target, op.const(0, I64), dtype=bool), own, target)
    return op.emit("Reshape", x, target)


def _fold_to_result_shape(view: OpView) -> Array:
    return view.value("x").reshape([d or 0 for d in view.output_type().shape or ()])


def _reference_parts(view: OpView) -> list[tuple[int, int, int]]:
    """For each reference tensor of `reshape_like`: its index, and the range of axes taken from it."""

    def known(name: str, index: int) -> int:
        constant = view.bound(name, index).constant
        if constant is None:
            raise CannotInfer(f"`{name}` is not known before run time")
        return int(constant.item())

    parts = []
    for index in range(len(view.inputs.get("ref_tensors", ()))):
        rank = len(view.shape("ref_tensors", index))
        end = rank if known("end_masks", index) else known("ends", index)
        begin, end, _ = slice(known("begins", index), end).indices(rank)
        parts.append((index, begin, end))
    return parts


def _infer_reshape_like(view: OpView) -> Sequence[ValueType]:
    dims: list[int | None] = []
    for index, begin, end in _reference_parts(view):
        dims += view.shape("ref_tensors", index)[begin:end]
    x = view.type("x")
    if x.elements is not None and product(dims) not in (None, x.elements):
        raise CannotInfer(f"{list(x.shape or ())} does not reshape to {dims}")
    return [TensorType(x.dtype, tuple(dims))]


def _lower_reshape_like(op: Lowering) -> Tensor:
    x = op["x"]
    result = _reshape_to(op, x, op.view.output_type().shape or ())
    if result is not None:
        return result
    parts = [
        op.emit("Shape", op.argument("ref_tensors", index), dtype=I64, start=begin, end=end)
        for index, begin, end in _reference_parts(op.view)
    ]
    return op.emit("Reshape", x, op.emit("Concat", *parts, axis=0), allowzero=1)


def _infer_flatten2d(view: OpView) -> Sequence[ValueType]:
    x, axis = view.type("x"), view.integer("axis", 1)
    shape = view.shape("x")
    return [TensorType(x.dtype, (product(shape[:axis]), product(shape[axis:])))]


def _lower_flatten2d(op: Lowering) -> Tensor:
    return op.emit("Flatten", op["x"], axis=op.view.integer("axis", 1))


# expand_dims, squeeze


def _expanded_axes(view: OpView) -> list[int]:
    axes = view.integers("axes")
    rank = len(view.shape("x")) + len(axes)
    return sorted(normal_axis(axis, rank) for axis in axes)


def _infer_expand_dims(view: OpView) -> Sequence[ValueType]:
    dims = list(view.shape("x"))
    for axis in _expanded_axes(view):
        dims.insert(axis, 1)
    return [TensorType(view.type("x").dtype, tuple(dims))]


def _lower_expand_dims(op: Lowering) -> Tensor:
    return op.unsqueeze(op["x"], _expanded_axes(op.view))


def _squeezed_axes(view: OpView) -> list[int]:
    """The removed axes: of the named ones (all, where none is named), those known to have length 1."""
    shape = view.shape("x")
    named = [normal_axis(a, len(shape)) for a in view.integers("axes", range(len(shape)))]
    return sorted(axis for axis in set(named) if shape[axis] == 1)


def _infer_squeeze(view: OpView) -> Sequence[ValueType]:
    gone = _squeezed_axes(view)
    dims = tuple(d for axis, d in enumerate(view.shape("x")) if axis not in gone)
    return [TensorType(view.type("x").dtype, dims)]


def _lower_squeeze(op: Lowering) -> Tensor:
    return op.squeeze(op["x"], _squeezed_axes(op.view))


# transpose, reverse, reverse_sequence


def _permutation(view: OpView) -> list[int]:
    rank = len(view.shape("x"))
    perm = [normal_axis(axis, rank) for axis in view.integers("perm")]
    if sorted(perm) != list(range(rank)):
        raise CannotInfer(f"perm {perm} does not name each axis of a tensor of rank {rank} once")
    return perm


def _infer_transpose(view: OpView) -> Sequence[ValueType]:
    shape = view.shape("x")
    return [TensorType(view.type("x").dtype, tuple(shape[axis] for axis in _permutation(view)))]


def _lower_transpose(op: Lowering) -> Tensor:
    return op.transpose(op["x"], _permutation(op.view))


def _fold_transpose(view: OpView) -> Array:
    return np.transpose(view.value("x"), _permutation(view))


def _reversed_axes(view: OpView) -> list[int]:
    rank = len(view.shape("x"))
    return sorted({normal_axis(axis, rank) for axis in view.integers("axes", range(rank))})


def _infer_x(view: OpView) -> Sequence[ValueType]:
    return [view.type("x")]


def _lower_reverse(op: Lowering) -> Tensor:
    axes = _reversed_axes(op.view)
    if not axes:
        return op["x"]
    minus = op.const([-1] * len(axes), I64)
    end = op.const([np.iinfo(np.int64).min] * len(axes), I64)
    return op.emit("Slice", op["x"], minus, end, op.const(axes, I64), minus)


def _fold_reverse(view: OpView) -> Array:
    return np.flip(view.value("x"), tuple(_reversed_axes(view)))


def _lower_reverse_sequence(op: Lowering) -> Tensor:
    """Gathers along the sequence from `length - 1 - t` where `t < length`, else from `t`."""
    view = op.view
    rank = len(view.shape("x"))
    seq = normal_axis(view.integer("seq_axis", 0), rank)
    batch = normal_axis(view.integer("batch_axis", 0), rank)
    if seq == batch:
        raise CannotInfer("`seq_axis` and `batch_axis` are the same")
    x = op["x"]
    shape = op.shape_of(x)
    steps = op.emit("Gather", shape, op.const(seq, I64), axis=0)
    time = op.emit("Range", op.const(0, I64), steps, op.const(1, I64))
    time = op.unsqueeze(time, [axis for axis in range(rank) if axis != seq])
    length = op.unsqueeze(op.int64("lengths"), [axis for axis in range(rank) if axis != batch])
    mirrored = op.emit("Sub", op.emit("Sub", length, op.const(1, I64)), time)
    source = op.emit("Where", op.emit("Less", time, length, dtype=bool), mirrored, time)
    return op.emit("GatherElements", x, op.emit("Expand", source, shape), axis=seq)


def _lower_sliding_windows(op: Lowering) -> Tensor:
    view = op.view
    axis = normal_axis(view.integer("axis"), len(view.shape("x")))
    length = view.shape("x")[axis]
    if length is None:
        raise CannotLower("the length of the windowed axis is not known before run time")
    op.emitter.check_array(_window_count(view, length), view.integer("size"))
    return op.emit("Gather", op["x"], op.const(_window_indices(view, length), I64), axis=axis)


def _window_count(view: OpView, length: int) -> int:
    size, stride = view.integer("size"), view.integer("stride", 1)
    if stride < 1:
        raise CannotInfer(f"windows at a stride of {stride}")
    count = (length - size) // stride + 1
    if size < 1 or count < 1:
        raise CannotInfer(f"no window of {size} at stride {stride} fits into {length} elements")
    return count


def _window_indices(view: OpView, length: int) -> npt.NDArray[np.intp]:
    size, stride, count = view.integer("size"), view.integer("stride", 1), _window_count(view, length)
    return np.arange(count, dtype=np.intp)[:, None] * stride + np.arange(size)


def _infer_sliding_windows(view: OpView) -> Sequence[ValueType]:
    dims = list(view.shape("x"))
    axis = normal_axis(view.integer("axis"), len(dims))
    length = dims[axis]
    count = None if length is None else _window_count(view, length)
    dims[axis : axis + 1] = [count, view.integer("size")]
    return [TensorType(view.type("x").dtype, tuple(dims))]


def _fold_sliding_windows(view: OpView) -> Array:
    x = view.value("x")
    axis = view.integer("axis") % x.ndim
    return np.take(x, _window_indices(view, x.shape[axis]), axis)


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="reshape",
        doc="The elements of a tensor in the same order, in another shape.",
        traits=Trait.RESHAPE,
        infer=_infer_reshape,
        lower=_lower_reshape,
        work=free,
        fold=folding(_fold_to_result_shape),
    ),
    OpSpec(
        name="reshape_like",
        doc="The elements of a tensor in a shape composed from the shapes of others.",
        traits=Trait.RESHAPE,
        infer=_infer_reshape_like,
        lower=_lower_reshape_like,
        work=free,
    ),
    OpSpec(
        name="flatten2d",
        doc="A matrix: all axes before a given one are merged, and all others.",
        traits=Trait.RESHAPE,
        infer=_infer_flatten2d,
        lower=_lower_flatten2d,
        work=free,
        fold=folding(_fold_to_result_shape),
    ),
    OpSpec(
        name="expand_dims",
        doc="A tensor with axes of length 1 inserted.",
        traits=Trait.RESHAPE,
        infer=_infer_expand_dims,
        lower=_lower_expand_dims,
        work=free,
        fold=folding(_fold_to_result_shape),
    ),
    OpSpec(
        name="squeeze",
        doc="A tensor without axes of length 1; named axes of other lengths are kept.",
        traits=Trait.RESHAPE,
        infer=_infer_squeeze,
        lower=_lower_squeeze,
        work=free,
        fold=folding(_fold_to_result_shape),
    ),
    OpSpec(
        name="transpose",
        doc="A tensor with its axes in another order.",
        traits=Trait.TRANSPOSITION,
        infer=_infer_transpose,
        lower=_lower_transpose,
        work=moved_output,
        fold=folding(_fold_transpose),
    ),
    OpSpec(
        name="reverse",
        doc="A tensor with the elements along some axes in reverse order.",
        traits=Trait.COPY,
        infer=_infer_x,
        lower=_lower_reverse,
        work=moved_output,
        fold=folding(_fold_reverse),
    ),
    OpSpec(
        name="reverse_sequence",
        doc="A batch of sequences, each reversed up to its own length.",
        traits=Trait.COPY,
        infer=_infer_x,
        lower=_lower_reverse_sequence,
        work=moved_output,
    ),
    OpSpec(
        name="sliding_windows",
        doc="All windows of a size along one axis, with a stride, stacked along a new axis.",
        traits=Trait.REARRANGEMENT,
        infer=_infer_sliding_windows,
        lower=_lower_sliding_windows,
        work=moved_output,
        fold=folding(_fold_sliding_windows),
    ),
)
