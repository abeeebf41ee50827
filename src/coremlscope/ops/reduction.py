"""Reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array, DType, TensorType, ValueType
from coremlscope.ops.emit import F32, I32, I64, Lowering, Tensor
from coremlscope.ops.folding import Fold, folding, named
from coremlscope.ops.infer import normal_axis, reduced
from coremlscope.ops.spec import OpSpec
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, OpView
from coremlscope.ops.work import per_input_element


def _axes(view: OpView) -> list[int]:
    rank = len(view.shape("x"))
    return sorted({normal_axis(axis, rank) for axis in view.integers("axes", range(rank))})


def _infer(view: OpView) -> Sequence[ValueType]:
    type_, keep = view.type("x"), view.flag("keep_dims", False)
    if type_.shape is None:
        return [type_]
    return [reduced(type_, _axes(view), keep)]


def _infer_arg(view: OpView) -> Sequence[ValueType]:
    name = view.text("output_dtype", "int32").lower()
    if name not in ("int32", "uint16"):
        raise CannotInfer(f"`output_dtype` is {name!r}")
    type_ = reduced(view.type("x"), [view.integer("axis", -1)], view.flag("keep_dims", False))
    return [TensorType(DType(name), type_.shape)]


def _reducing(onnx_op: str, through_float: bool) -> Callable[[Lowering], Tensor]:
    """Lowers a reduction.

    Args:
        onnx_op: The ONNX operator.
        through_float: True where ONNX or ONNX Runtime supports floats only.
    """

    def lower(op: Lowering) -> Tensor:
        given, rank, axes = op["x"], len(op.view.shape("x")), _axes(op.view)
        x = op.cast(given, F32) if through_float else given
        keep = int(op.view.flag("keep_dims", False))
        if onnx_op == "ReduceMean" and rank >= 4 and axes == list(range(2, rank)):
            # ONNX Runtime keeps its blocked layout with this operator.
            pooled = op.emit("GlobalAveragePool", x)
            result = pooled if keep else op.squeeze(pooled, axes)
        elif axes:
            result = op.emit(onnx_op, x, op.const(axes, I64), keepdims=keep)
        else:
            # In ONNX no axes mean all; a reduction over none still squares, takes roots and so on.
            result = op.emit(onnx_op, op.unsqueeze(x, [rank]), op.const([rank], I64), keepdims=0)
        return op.cast(result, given.dtype)

    return lower


def _picking(onnx_op: str) -> Callable[[Lowering], Tensor]:
    def lower(op: Lowering) -> Tensor:
        axis = normal_axis(op.view.integer("axis", -1), len(op.view.shape("x")))
        keep = int(op.view.flag("keep_dims", False))
        return op.cast(op.emit(onnx_op, op["x"], dtype=I64, axis=axis, keepdims=keep), I32)

    return lower


def _folding(compute: Callable[..., Array]) -> Fold:
    def fold(view: OpView) -> Array:
        x, keep = view.value("x"), view.flag("keep_dims", False)
        if not x.size:
            raise CannotInfer("a reduction of no elements")
        return np.asarray(compute(x, axis=tuple(_axes(view)), keepdims=keep))

    return folding(fold)


def _reduction(
    name: str,
    onnx_op: str,
    doc: str,
    flops: int = 1,
    through_float: bool = False,
    compute: Callable[..., Array] | None = None,
    traits: Trait = Trait.REDUCTION,
) -> OpSpec:
    return OpSpec(
        name=name,
        doc=doc,
        traits=traits,
        infer=_infer,
        lower=_reducing(onnx_op, through_float),
        work=per_input_element(flops),
        fold=None if compute is None else _folding(compute),
    )


_SUMMATION = Trait.REDUCTION | Trait.SUMMATION

OPS: tuple[OpSpec, ...] = (
    _reduction("reduce_sum", "ReduceSum", "The sum over some axes.", compute=named("sum"), traits=_SUMMATION),
    _reduction(
        "reduce_mean", "ReduceMean", "The mean over some axes.", through_float=True, traits=_SUMMATION
    ),
    _reduction("reduce_max", "ReduceMax", "The maximum over some axes.", compute=named("max")),
    _reduction("reduce_min", "ReduceMin", "The minimum over some axes.", compute=named("min")),
    _reduction("reduce_prod", "ReduceProd", "The product over some axes.", compute=named("prod")),
    _reduction(
        "reduce_l1_norm", "ReduceL1", "The sum of absolute values over some axes.", 2, traits=_SUMMATION
    ),
    _reduction(
        "reduce_l2_norm",
        "ReduceL2",
        "The root of the sum of squares over some axes.",
        2,
        True,
        traits=_SUMMATION,
    ),
    _reduction(
        "reduce_sum_square", "ReduceSumSquare", "The sum of squares over some axes.", 2, traits=_SUMMATION
    ),
    _reduction("reduce_log_sum", "ReduceLogSum", "The logarithm of the sum over some axes.", 1, True),
    # Per element: a comparison for the maximum, a subtraction, exp and an addition.
    _reduction("reduce_log_sum_exp", "ReduceLogSumExp", "The logarithm of the sum of exponentials.", 4, True),
    OpSpec(
        name="reduce_argmax",
        doc="The index of the largest element along an axis; of equal ones, the first.",
        traits=Trait.ARG_REDUCTION,
        infer=_infer_arg,
        lower=_picking("ArgMax"),
        work=per_input_element(1),
    ),
    OpSpec(
        name="reduce_argmin",
        doc="The index of the smallest element along an axis; of equal ones, the first.",
        traits=Trait.ARG_REDUCTION,
        infer=_infer_arg,
        lower=_picking("ArgMin"),
        work=per_input_element(1),
    ),
)
