"""Elementwise operations of two operands, comparisons and logic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from coremlscope.ir import Array, Constant, DType, constant
from coremlscope.ops.emit import BOOL, F32, Lowering, Tensor
from coremlscope.ops.infer import broadcast
from coremlscope.ops.spec import OpSpec, Work, moved
from coremlscope.ops.view import OpView

__all__ = ["OPS"]

#: Results of at most this many elements are computed while binding, so that shape arithmetic is known.
_FOLD_ELEMENTS = 64


def _per_element(flops: int) -> Callable[[OpView], Work]:
    def work(view: OpView) -> Work:
        return moved(view, flops * (view.output_type().elements or 0))

    return work


def _folding(compute: Callable[[Array, Array], Array]) -> Callable[[OpView], Sequence[Constant] | None]:
    """Computes small integer results: these are shapes and indices."""

    def fold(view: OpView) -> Sequence[Constant] | None:
        type_ = view.output_type()
        small = type_.elements is not None and type_.elements <= _FOLD_ELEMENTS
        if not small or type_.dtype.is_float or not (view.is_known("x") and view.is_known("y")):
            return None
        x, y = view.value("x"), view.value("y")
        if not np.issubdtype(x.dtype, np.integer):
            return None
        with np.errstate(all="ignore"):
            return [constant(compute(x, y), type_.dtype)]

    return fold


def _operands(op: Lowering) -> tuple[Tensor, Tensor]:
    """Both operands in one element type: MIL lets an integer meet a float."""
    x, y = op["x"], op["y"]
    if x.dtype != y.dtype and F32 in (x.dtype, y.dtype):
        return op.cast(x, F32), op.cast(y, F32)
    return x, y


def _binary(onnx_op: str) -> Callable[[Lowering], Tensor]:
    return lambda op: op.emit(onnx_op, *_operands(op))


def _compare(onnx_op: str) -> Callable[[Lowering], Tensor]:
    return lambda op: op.emit(onnx_op, *_operands(op), dtype=BOOL)


def _arithmetic(name: str, onnx_op: str, doc: str, compute: Callable[[Array, Array], Array]) -> OpSpec:
    return OpSpec(name, doc, broadcast("x", "y"), _binary(onnx_op), _per_element(1), _folding(compute))


def _comparison(name: str, onnx_op: str, doc: str, compute: Callable[[Array, Array], Array]) -> OpSpec:
    infer = broadcast("x", "y", dtype=DType.BOOL)
    return OpSpec(name, doc, infer, _compare(onnx_op), _per_element(1), _folding(compute))


OPS: tuple[OpSpec, ...] = (
    _arithmetic("add", "Add", "The sum of two tensors, element by element.", np.add),
    _arithmetic("sub", "Sub", "The difference of two tensors, element by element.", np.subtract),
    _arithmetic("mul", "Mul", "The product of two tensors, element by element.", np.multiply),
    _comparison("equal", "Equal", "True where two tensors are equal.", np.equal),
)
