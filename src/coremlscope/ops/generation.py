"""Operations that generate tensors: shapes, constants, ranges, one-hot vectors, masks, running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array, Constant, DType, Shape, TensorType, ValueType, constant
from coremlscope.ops.emit import BOOL, I32, I64, Lowering, Tensor, carry
from coremlscope.ops.folding import folding
from coremlscope.ops.infer import normal_axis, same_as
from coremlscope.ops.spec import OpSpec, Work, free, moved
from coremlscope.ops.structure import choose
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, OpView


def shape_from(view: OpView, name: str = "shape") -> Shape | None:
    """The shape that a parameter holds; None where not even its length is known."""
    if view.is_known(name):
        return tuple(view.integers(name))
    length = view.shape(name)[0]
    return None if length is None else (None,) * length


# shape, fill, fill_like


def _infer_shape(view: OpView) -> Sequence[ValueType]:
    return [TensorType(DType.INT32, (view.type("x").rank,))]


def _fold_shape(view: OpView) -> Sequence[Constant] | None:
    x = view.type("x")
    if x.shape is None or not x.is_static:
        return None
    return [constant(np.array(x.shape, np.int32).reshape(-1), DType.INT32)]


def _lower_shape(op: Lowering) -> Tensor:
    return op.cast(op.shape_of(op["x"]), I32)


def _fill_dtype(view: OpView) -> DType:
    return view.type("value").dtype if view.has("value") else DType.FP32


def _infer_fill(view: OpView) -> Sequence[ValueType]:
    return [TensorType(_fill_dtype(view), shape_from(view))]


def _filled(op: Lowering, shape: Tensor) -> Tensor:
    dtype = carry(_fill_dtype(op.view))
    if op.view.has("value") and not op.view.is_known("value"):
        return op.emit("Expand", op.reshape(op["value"], [1]), shape)
    return op.emit("Expand", op.const(op.view.value("value", np.float32(0)).reshape(()), dtype), shape)


def _lower_fill(op: Lowering) -> Tensor:
    return _filled(op, op.int64("shape"))


def _infer_fill_like(view: OpView) -> Sequence[ValueType]:
    return [TensorType(_fill_dtype(view), view.type("ref_tensor").shape)]


def _lower_fill_like(op: Lowering) -> Tensor:
    shape = op.view.output_type().shape
    if shape is not None and None not in shape:
        return _filled(op, op.const([d or 0 for d in shape], I64))
    return _filled(op, op.shape_of(op["ref_tensor"]))


def _fold_filled(view: OpView) -> Array:
    value = view.value("value", np.float32(0)).reshape(())
    return np.full([d or 0 for d in view.output_type().shape or ()], value)


def _fold_fill_like(view: OpView) -> Sequence[Constant] | None:
    """Only the shape of the reference matters: its content need not be known."""
    type_ = view.output_type()
    known = view.is_known("value") or not view.has("value")
    if type_.elements is None or type_.elements > 1024 or not known:
        return None
    return [constant(_fold_filled(view), type_.dtype)]


# range_1d


def _range_length(view: OpView) -> int | None:
    if not all(view.is_known(name) for name in ("start", "end", "step")):
        return None
    start, end, step = (view.real(name) for name in ("start", "end", "step"))
    if step == 0:
        raise CannotInfer("a range with a step of 0")
    return max(0, math.ceil((end - start) / step))


def _infer_range_1d(view: OpView) -> Sequence[ValueType]:
    return [TensorType(view.type("start").dtype, (_range_length(view),))]


def _lower_range_1d(op: Lowering) -> Tensor:
    dtype = carry(op.view.type("start").dtype)
    limits = [op.cast(op.reshape(op[name], []), dtype) for name in ("start", "end", "step")]
    return op.emit("Range", *limits)


def _fold_range_1d(view: OpView) -> Any:
    start, step = (view.value(name).reshape(()) for name in ("start", "step"))
    if start.dtype.kind == "f":
        values = start.astype(np.float64) + np.arange(_range_length(view)) * step.astype(np.float64)
    else:
        values = start.astype(np.int64) + np.arange(_range_length(view)) * step.astype(np.int64)
    return values.astype(view.output_type().dtype.numpy)


# one_hot, non_zero, band_part, cumsum


def _infer_one_hot(view: OpView) -> Sequence[ValueType]:
    dims = list(view.shape("indices"))
    depth = view.integer("one_hot_vector_size") if view.is_known("one_hot_vector_size") else None
    dims.insert(normal_axis(view.integer("axis", -1), len(dims) + 1), depth)
    dtype = view.type("on_value").dtype if view.has("on_value") else DType.INT32
    return [TensorType(dtype, tuple(dims))]


def _lower_one_hot(op: Lowering) -> Tensor:
    view = op.view
    rank = len(view.shape("indices")) + 1
    axis = normal_axis(view.integer("axis", -1), rank)
    if view.is_known("one_hot_vector_size"):
        classes = op.counting(view.integer("one_hot_vector_size"), I32)
    else:
        depth = op.reshape(op["one_hot_vector_size"], [])
        classes = op.emit("Range", op.const(0, I32), depth, op.const(1, I32))
    classes = op.unsqueeze(classes, range(1, rank - axis))
    hot = op.emit("Equal", op.unsqueeze(op["indices"], [axis]), classes, dtype=BOOL)
    dtype = carry(view.output_type().dtype)
    on, off = view.value("on_value", np.int32(1)), view.value("off_value", np.int32(0))
    if (on == 1).all() and (off == 0).all():
        return op.cast(hot, dtype)
    return choose(op, hot, op.const(on.reshape(()), dtype), op.const(off.reshape(()), dtype))


def _infer_non_zero(view: OpView) -> Sequence[ValueType]:
    return [TensorType(DType.INT32, (None, view.type("x").rank))]


def _lower_non_zero(op: Lowering) -> Tensor:
    return op.cast(op.transpose(op.emit("NonZero", op["x"], dtype=I64), [1, 0]), I32)


def _lower_band_part(op: Lowering) -> Tensor:
    x, lower, upper = op["x"], op.view.integer("lower", -1), op.view.integer("upper", -1)
    if upper >= 0:
        x = op.emit("Trilu", x, op.const(upper, I64), upper=0)
    if lower >= 0:
        x = op.emit("Trilu", x, op.const(-lower, I64), upper=1)
    return x


def _fold_band_part(view: OpView) -> Array:
    x, lower, upper = view.value("x"), view.integer("lower", -1), view.integer("upper", -1)
    if upper >= 0:
        x = np.tril(x, upper)
    return np.triu(x, -lower) if lower >= 0 else x


def _lower_cumsum(op: Lowering) -> Tensor:
    view = op.view
    return op.emit(
        "CumSum",
        op["x"],
        op.const(view.integer("axis", 0), I64),
        exclusive=int(view.flag("exclusive", False)),
        reverse=int(view.flag("reverse", False)),
    )


def _fold_cumsum(view: OpView) -> Any:
    x: Any = view.value("x")
    axis = view.integer("axis", 0)
    if view.flag("reverse", False):
        x = np.flip(x, axis)
    total = np.cumsum(x, axis, dtype=x.dtype)
    if view.flag("exclusive", False):
        total = total - x
    return np.flip(total, axis) if view.flag("reverse", False) else total


def _integers_only(
    fold: Callable[[OpView], Sequence[Constant] | None],
) -> Callable[[OpView], Sequence[Constant] | None]:
    return lambda view: None if view.output_type().dtype.is_float else fold(view)


def _per_element(view: OpView) -> Work:
    """One operation per element."""
    return moved(view, view.output_type().elements or 0)


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="shape",
        doc="The lengths of a tensor's axes.",
        infer=_infer_shape,
        lower=_lower_shape,
        work=free,
        fold=_fold_shape,
    ),
    OpSpec(
        name="fill",
        doc="A tensor of a given shape, filled with one value.",
        traits=Trait.GENERATION,
        infer=_infer_fill,
        lower=_lower_fill,
        work=moved,
        fold=folding(_fold_filled),
    ),
    OpSpec(
        name="fill_like",
        doc="A tensor with the shape of another, filled with one value.",
        traits=Trait.GENERATION,
        infer=_infer_fill_like,
        lower=_lower_fill_like,
        work=moved,
        fold=_fold_fill_like,
    ),
    OpSpec(
        name="range_1d",
        doc="Numbers from a start to an end (exclusive) with a step.",
        infer=_infer_range_1d,
        lower=_lower_range_1d,
        work=moved,
        fold=folding(_fold_range_1d),
    ),
    OpSpec(
        name="one_hot",
        doc="One-hot vectors: one element, chosen by an index, has the on value, the others the off value.",
        traits=Trait.GENERATION,
        infer=_infer_one_hot,
        lower=_lower_one_hot,
        work=moved,
    ),
    OpSpec(
        name="non_zero",
        doc="The indices of the nonzero elements, one row each.",
        infer=_infer_non_zero,
        lower=_lower_non_zero,
        work=moved,
    ),
    OpSpec(
        name="band_part",
        doc="Matrices with all elements outside a band around the diagonal set to zero.",
        traits=Trait.COPY,
        infer=same_as("x"),
        lower=_lower_band_part,
        work=moved,
        fold=folding(_fold_band_part),
    ),
    OpSpec(
        name="cumsum",
        doc="The cumulative sum along an axis.",
        traits=Trait.REDUCTION,
        infer=same_as("x"),
        lower=_lower_cumsum,
        work=_per_element,
        fold=_integers_only(folding(_fold_cumsum)),
    ),
)
