"""Reads and writes elements by index: gather and scatter operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array, Constant, Shape, TensorType, ValueType
from coremlscope.ops.elementwise import quotient
from coremlscope.ops.emit import I32, I64, Lowering, Tensor
from coremlscope.ops.folding import Fold, folding
from coremlscope.ops.infer import normal_axis, same_as
from coremlscope.ops.spec import Infer, OpSpec, Work, bytes_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView

if TYPE_CHECKING:
    import numpy.typing as npt

#: The attribute of operations whose negative indices count from the end whatever the opset, as in Core AI.
COUNTED_FROM_END = "counted from end"
#: From this opset on (iOS 17) a negative index is out of bounds; `validate_indices` decides what happens.
_NO_NEGATIVE_INDICES = 7


# Indices


def _lengths(op: Lowering, data: str, axes: Sequence[int]) -> Tensor:
    """How many elements the indexed axes have, int32."""
    shape = op.view.shape(data)
    known = [shape[axis] for axis in axes]
    if None not in known:
        return op.const([d or 0 for d in known], I32)
    lengths = op.emit("Gather", op.shape_of(op[data]), op.const(list(axes), I64), axis=0)
    return op.cast(lengths, I32)


def _indices(op: Lowering, data: str, axes: Sequence[int]) -> Tensor:
    """The indices into `axes` of `data`, int64, as the program's opset treats those that are out of bounds.

    ONNX counts negative indices from the end, as programs before iOS 17 do. From then on they either stop
    the prediction or yield any value, memory-safely. Reads are then clamped to the bounds, which takes two
    cheap nodes; writes go to index 0, because coremltools' tests require that they neither wrap nor clamp.
    """
    view = op.view
    indices = op["indices"]
    if not _counts_from_end(view) and not _in_bounds(view, data, axes):
        if view.flag("validate_indices", False):
            wrong = op.emit("Less", indices, op.const(0, I32), dtype=bool)
            indices = op.emit("Where", wrong, op.const(np.iinfo(np.int32).max, I32), indices, dtype=I32)
        else:
            indices = _made_safe(op, indices, _lengths(op, data, axes), is_written=data == "data")
    elif view.is_known("indices"):
        return op.int64("indices")
    return op.cast(indices, I64)


def _counts_from_end(view: OpView) -> bool:
    return view.opset < _NO_NEGATIVE_INDICES or COUNTED_FROM_END in view.op.attributes


def _made_safe(op: Lowering, indices: Tensor, lengths: Tensor, *, is_written: bool) -> Tensor:
    zero = op.const(0, I32)
    if is_written:
        below = op.emit("Less", indices, zero, dtype=bool)
        beyond = op.emit("GreaterOrEqual", indices, lengths, dtype=bool)
        return op.emit("Where", op.emit("Or", below, beyond), zero, indices, dtype=I32)
    last = op.emit("Sub", lengths, op.const([1], I32))
    return op.emit("Min", op.emit("Max", indices, zero), last)


def _in_bounds(view: OpView, data: str, axes: Sequence[int]) -> bool:
    """True where the indices are known and all lie within the axes, by the rules of the opset."""
    shape = view.shape(data)
    lengths = [shape[axis] for axis in axes]
    if not view.is_known("indices") or None in lengths:
        return False
    indices, ends = view.value("indices").astype(np.int64), np.array(lengths)
    lowest = -ends if _counts_from_end(view) else 0
    return bool(((indices >= lowest) & (indices < ends)).all())


# gather


def _gather_axes(view: OpView) -> tuple[int, int]:
    """The axis and the number of batch axes of `gather`."""
    rank = len(view.shape("x"))
    axis, batch = normal_axis(view.integer("axis", 0), rank), view.integer("batch_dims", 0)
    if not 0 <= batch <= axis:
        raise CannotInfer(f"{batch} batch dimensions and axis {axis}")
    return axis, batch


def _infer_gather(view: OpView) -> Sequence[ValueType]:
    axis, batch = _gather_axes(view)
    x, indices = view.shape("x"), view.shape("indices")
    return [TensorType(view.type("x").dtype, (*x[:axis], *indices[batch:], *x[axis + 1 :]))]


def _lower_gather(op: Lowering) -> Tensor:
    axis, batch = _gather_axes(op.view)
    indices = _indices(op, "x", [axis])
    if not batch:
        return op.emit("Gather", op["x"], indices, axis=axis)
    # GatherND has batches, but indexes only the first axis after them: move `axis` there, and move back
    # the axes between.
    rank, indices_rank = len(op.view.shape("x")), len(op.view.shape("indices"))
    between = list(range(batch, axis))
    x = op.transpose(op["x"], [*range(batch), axis, *between, *range(axis + 1, rank)])
    taken = op.emit("GatherND", x, op.unsqueeze(indices, [indices_rank]), batch_dims=batch)
    moved = [indices_rank + i for i in range(len(between))]
    after = range(indices_rank + len(between), indices_rank + rank - batch - 1)
    return op.transpose(taken, [*range(batch), *moved, *range(batch, indices_rank), *after])


def _fold_gather(view: OpView) -> Array:
    axis, batch = _gather_axes(view)
    return _take(view.value("x"), view.value("indices").astype(np.intp), axis, batch)


def _take(x: Array, indices: npt.NDArray[np.intp], axis: int, batch: int) -> Array:
    if not batch:
        return np.take(x, indices, axis)
    parts = zip(x, indices, strict=True)
    return np.stack([_take(inner, i, axis - 1, batch - 1) for inner, i in parts])


def _if_in_bounds(fold: Fold, axes_of: Callable[[OpView], Sequence[int]]) -> Fold:
    """Folds where no index is out of bounds; others are handled at run time."""

    def checked(view: OpView) -> Sequence[Constant] | None:
        return fold(view) if _in_bounds(view, "x", axes_of(view)) else None

    return checked


# gather_along_axis, gather_nd


def _along(view: OpView, data: str) -> int:
    return normal_axis(view.integer("axis", 0), len(view.shape(data)))


def _infer_gather_along_axis(view: OpView) -> Sequence[ValueType]:
    x, indices = view.shape("x"), view.shape("indices")
    axis = _along(view, "x")
    if len(x) != len(indices):
        raise CannotInfer(f"indices of rank {len(indices)} for a tensor of rank {len(x)}")
    for other, (a, b) in enumerate(zip(x, indices, strict=True)):
        if other != axis and None not in (a, b) and a != b:
            raise CannotInfer(f"indices of shape {list(indices)} for a tensor of shape {list(x)}")
    return [TensorType(view.type("x").dtype, indices)]


def _lower_gather_along_axis(op: Lowering) -> Tensor:
    axis = _along(op.view, "x")
    return op.emit("GatherElements", op["x"], _indices(op, "x", [axis]), axis=axis)


def _fold_gather_along_axis(view: OpView) -> Array:
    return np.take_along_axis(view.value("x"), view.value("indices").astype(np.int64), _along(view, "x"))


def _indexed_axes(view: OpView, data: str) -> list[int]:
    """The axes that the last axis of `indices` indexes."""
    batch = view.integer("batch_dims", 0)
    depth = view.shape("indices")[-1]
    if depth is None:
        raise CannotInfer("the length of the last axis of `indices` is not known")
    if batch + depth > len(view.shape(data)):
        raise CannotInfer(f"indices of {depth} axes, after {batch} of the batch, for {len(view.shape(data))}")
    return list(range(batch, batch + depth))


def _infer_gather_nd(view: OpView) -> Sequence[ValueType]:
    x, indices = view.shape("x"), view.shape("indices")
    rest = x[view.integer("batch_dims", 0) + len(_indexed_axes(view, "x")) :]
    return [TensorType(view.type("x").dtype, (*indices[:-1], *rest))]


def _lower_gather_nd(op: Lowering) -> Tensor:
    indices = _indices(op, "x", _indexed_axes(op.view, "x"))
    return op.emit("GatherND", op["x"], indices, batch_dims=op.view.integer("batch_dims", 0))


# scatter, scatter_along_axis, scatter_nd

#: ONNX's name of each mode that it supports; the others are composed from these.
_REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}

#: Takes data, updates and a reduction; returns the result.
Scatter = Callable[[Tensor, Tensor, str], Tensor]


def _by_mode(op: Lowering, data: Tensor, updates: Tensor, scatter: Scatter) -> Tensor:
    mode = op.view.text("mode", "add")
    if mode == "sub":
        return scatter(data, op.emit("Neg", updates), "add")
    if mode == "div":
        # Divided by the product of all updates to the same element.
        one = op.like(1, data)
        divisor = scatter(op.emit("Expand", one, op.shape_of(data)), updates, "mul")
        return quotient(op, data, divisor)
    if mode not in _REDUCTIONS:
        raise CannotLower(f"scatter mode {mode!r}")
    return scatter(data, updates, _REDUCTIONS[mode])


def _lower_scatter(op: Lowering) -> Tensor:
    """Scatters whole slices: as rows where `axis` is the first, else element by element."""
    view = op.view
    axis = _along(view, "data")
    rank, indices_rank = len(view.shape("data")), len(view.shape("indices"))
    indices = _indices(op, "data", [axis])
    if axis == 0:
        rows = op.unsqueeze(indices, [indices_rank])
        return _by_mode(
            op, op["data"], op["updates"], lambda d, u, r: op.emit("ScatterND", d, rows, u, reduction=r)
        )
    updates = op["updates"]
    if indices_rank != 1:
        if rank - axis > 1 and None in view.shape("data")[axis + 1 :]:
            raise CannotLower("the shape of `data` is not known before run time")
        after = [d or 0 for d in view.shape("data")[axis + 1 :]]
        indices = op.reshape(indices, [-1])
        updates = op.reshape(updates, [*([0] * axis), -1, *after])
    indices = op.unsqueeze(indices, [other for other in range(rank) if other != axis])
    indices = op.emit("Expand", indices, op.shape_of(updates))
    return _scatter_elements(op, indices, updates, axis)


def _scatter_elements(op: Lowering, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return _by_mode(
        op,
        op["data"],
        updates,
        lambda d, u, r: op.emit("ScatterElements", d, indices, u, axis=axis, reduction=r),
    )


def _lower_scatter_along_axis(op: Lowering) -> Tensor:
    axis = _along(op.view, "data")
    return _scatter_elements(op, _indices(op, "data", [axis]), op["updates"], axis)


def _lower_scatter_nd(op: Lowering) -> Tensor:
    indices = _indices(op, "data", _indexed_axes(op.view, "data"))
    return _by_mode(
        op, op["data"], op["updates"], lambda d, u, r: op.emit("ScatterND", d, indices, u, reduction=r)
    )


def _scattered(expected: Callable[[OpView], Shape]) -> Infer:
    """The type of `data`; checks the shape of the updates."""

    def infer(view: OpView) -> Sequence[ValueType]:
        given, wanted = view.type("updates").shape, expected(view)
        if given is not None and (
            len(given) != len(wanted)
            or any(None not in (a, b) and a != b for a, b in zip(given, wanted, strict=True))
        ):
            raise CannotInfer(f"updates of shape {list(given)} instead of {list(wanted)}")
        return same_as("data")(view)

    return infer


def _scatter_updates(view: OpView) -> Shape:
    data, axis = view.shape("data"), _along(view, "data")
    return (*data[:axis], *view.shape("indices"), *data[axis + 1 :])


def _scatter_nd_updates(view: OpView) -> Shape:
    return (*view.shape("indices")[:-1], *view.shape("data")[len(_indexed_axes(view, "data")) :])


def _gather_work(view: OpView) -> Work:
    """The gathered elements are read and written, not the whole source."""
    size, known = bytes_of(view.output_type())
    indices, indices_known = bytes_of(view.type("indices"))
    source = view.bound("x").constant
    return Work(
        flops=0,
        read_bytes=size + indices,
        weight_bytes=size if source is not None and source.is_weight else 0,
        written_bytes=size,
        is_complete=known and indices_known,
    )


def _scatter_work(view: OpView) -> Work:
    """Copies the tensor; one operation per update that is combined with it."""
    updates, known = bytes_of(view.type("updates"))
    indices, indices_known = bytes_of(view.type("indices"))
    data, data_known = bytes_of(view.type("data"))
    flops = 0 if view.text("mode", "add") == "update" else view.type("updates").elements or 0
    return Work(
        flops=flops,
        read_bytes=data + updates + indices,
        weight_bytes=0,
        written_bytes=data,
        is_complete=known and indices_known and data_known,
    )


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="gather",
        doc="Slices of a tensor along an axis, by index.",
        traits=Trait.GATHER,
        infer=_infer_gather,
        lower=_lower_gather,
        work=_gather_work,
        fold=_if_in_bounds(folding(_fold_gather), lambda view: [_gather_axes(view)[0]]),
    ),
    OpSpec(
        name="gather_along_axis",
        doc="Elements of a tensor, each by an index of its own along an axis.",
        traits=Trait.GATHER,
        infer=_infer_gather_along_axis,
        lower=_lower_gather_along_axis,
        work=_gather_work,
        fold=_if_in_bounds(folding(_fold_gather_along_axis), lambda view: [_along(view, "x")]),
    ),
    OpSpec(
        name="gather_nd",
        doc="Elements or slices of a tensor by index vectors.",
        traits=Trait.GATHER,
        infer=_infer_gather_nd,
        lower=_lower_gather_nd,
        work=_gather_work,
    ),
    OpSpec(
        name="scatter",
        doc="A tensor with slices along an axis replaced, or combined with others, by index.",
        traits=Trait.SCATTER,
        infer=_scattered(_scatter_updates),
        lower=_lower_scatter,
        work=_scatter_work,
    ),
    OpSpec(
        name="scatter_along_axis",
        doc="A tensor with elements replaced, or combined with others, each by an index along an axis.",
        traits=Trait.SCATTER,
        infer=_scattered(lambda view: view.shape("indices")),
        lower=_lower_scatter_along_axis,
        work=_scatter_work,
    ),
    OpSpec(
        name="scatter_nd",
        doc="A tensor with elements or slices replaced, or combined with others, by index vectors.",
        traits=Trait.SCATTER,
        infer=_scattered(_scatter_nd_updates),
        lower=_lower_scatter_nd,
        work=_scatter_work,
    ),
)
