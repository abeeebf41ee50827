"""Elementwise operations of two operands, comparisons and logic.

An integer divided by zero gives zero, with the dividend as remainder. This is how the Arm processors that
Core ML runs on divide (SDIV in the Arm Architecture Reference Manual); other processors fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array, DType, TensorType, ValueType
from coremlscope.ops.emit import BOOL, F32, I32, I64, Lowering, Tensor
from coremlscope.ops.folding import Fold, folding, named
from coremlscope.ops.infer import broadcast
from coremlscope.ops.spec import OpSpec
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.ops.work import per_element


def promoted(a: DType, b: DType) -> DType:
    """The common element type of two operands: floats before integers before bool, then the wider."""
    if DType.BOOL in (a, b):
        return b if a is DType.BOOL else a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    return a if a.bits >= b.bits else b


def _folding(compute: Callable[[Array, Array], Array]) -> Fold:
    return folding(lambda view: np.asarray(compute(view.value("x"), view.value("y"))))


def _infer(view: OpView) -> Sequence[ValueType]:
    (shaped,) = broadcast("x", "y")(view)
    assert isinstance(shaped, TensorType)
    return [TensorType(promoted(view.type("x").dtype, view.type("y").dtype), shaped.shape)]


def _operands(op: Lowering) -> tuple[Tensor, Tensor]:
    """Both operands in one element type: MIL allows an integer beside a float."""
    x, y = op["x"], op["y"]
    if x.dtype != y.dtype:
        kind = F32 if F32 in (x.dtype, y.dtype) else I32
        return op.cast(x, kind), op.cast(y, kind)
    return x, y


def _binary(onnx_op: str) -> Callable[[Lowering], Tensor]:
    return lambda op: op.emit(onnx_op, *_operands(op))


def _compare(onnx_op: str) -> Callable[[Lowering], Tensor]:
    return lambda op: op.emit(onnx_op, *_operands(op), dtype=BOOL)


def _logical(onnx_op: str) -> Callable[[Lowering], Tensor]:
    return lambda op: op.emit(onnx_op, op.cast(op["x"], BOOL), op.cast(op["y"], BOOL))


def _not_equal(op: Lowering) -> Tensor:
    return op.emit("Not", _compare("Equal")(op))


def _divides(view: OpView) -> bool:
    """True where no integer quotient can fail: ONNX Runtime has no kernel for division by zero.

    The lowest integer divided by -1 even ends the process, on processors that fault on the overflow.
    """
    return view.is_known("y") and not np.isin(view.value("y"), (0, -1)).any()


def _guarded(
    op: Lowering, divide: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, by_zero: Tensor
) -> Tensor:
    """`divide` applied to integers in 64 bits, where nothing overflows; `by_zero` where `y` is 0."""
    x, y, by_zero = (op.cast(tensor, I64) for tensor in (x, y, by_zero))
    is_zero = op.emit("Equal", y, op.const(0, I64), dtype=BOOL)
    divided = divide(x, op.emit("Where", is_zero, op.const(1, I64), y, dtype=I64))
    return op.cast(op.emit("Where", is_zero, by_zero, divided, dtype=I64), I32)


def quotient(op: Lowering, x: Tensor, y: Tensor) -> Tensor:
    """The quotient of two tensors of one element type; that of integers is rounded towards zero."""
    if x.dtype == F32:
        return op.emit("Div", x, y)
    return _guarded(op, lambda a, b: op.emit("Div", a, b), x, y, op.const(0, I32))


def _real_div(op: Lowering) -> Tensor:
    x, y = _operands(op)
    return op.emit("Div", x, y) if _divides(op.view) else quotient(op, x, y)


def _floor_div(op: Lowering) -> Tensor:
    x, y = _operands(op)
    if x.dtype == F32:
        return op.emit("Floor", op.emit("Div", x, y))

    def rounded_down(a: Tensor, b: Tensor) -> Tensor:
        # ONNX divides integers towards zero; doubles hold every int32 and quotients of them closely enough.
        ratio = op.emit("Div", op.cast(a, np.float64), op.cast(b, np.float64))
        return op.cast(op.emit("Floor", ratio), a.dtype)

    if _divides(op.view):
        return rounded_down(x, y)
    return _guarded(op, rounded_down, x, y, op.const(0, I32))


def _mod(op: Lowering) -> Tensor:
    x, y = _operands(op)
    if x.dtype == F32:
        # ONNX has only C's fmod for floats, whose sign is that of the dividend.
        floor = op.emit("Floor", op.emit("Div", x, y))
        return op.emit("Sub", x, op.emit("Mul", floor, y))
    if _divides(op.view):
        return op.emit("Mod", x, y)
    return _guarded(op, lambda a, b: op.emit("Mod", a, b), x, y, x)


def _fold_real_div(x: Array, y: Array) -> Array:
    """A quotient; the result of integers is an integer, rounded towards zero."""
    if not np.issubdtype(x.dtype, np.integer):
        return np.true_divide(x, y)
    return np.where(y == 0, 0, np.trunc(np.true_divide(x, np.where(y == 0, 1, y))))


def _fold_mod(x: Array, y: Array) -> Array:
    remainder = np.mod(x, y)
    return np.where(y == 0, x, remainder) if np.issubdtype(x.dtype, np.integer) else remainder


def _power(x: Array, y: Array) -> Array:
    """A power; NumPy refuses negative exponents of integers."""
    return (
        np.trunc(np.power(x.astype(np.float64), y)) if np.issubdtype(x.dtype, np.integer) else np.power(x, y)
    )


def _arithmetic(
    name: str,
    doc: str,
    lower: Callable[[Lowering], Tensor],
    compute: Callable[[Array, Array], Array],
    flops: int = 1,
    traits: Trait = Trait.ARITHMETIC,
) -> OpSpec:
    return OpSpec(
        name=name,
        doc=doc,
        traits=traits,
        infer=_infer,
        lower=lower,
        work=per_element(flops),
        fold=_folding(compute),
    )


def _comparison(
    name: str, doc: str, lower: Callable[[Lowering], Tensor], compute: Callable[[Array, Array], Array]
) -> OpSpec:
    infer = broadcast("x", "y", dtype=DType.BOOL)
    return OpSpec(
        name=name,
        doc=doc,
        traits=Trait.MASK,
        infer=infer,
        lower=lower,
        work=per_element(1),
        fold=_folding(compute),
    )


OPS: tuple[OpSpec, ...] = (
    _arithmetic("add", "The sum of two tensors, element by element.", _binary("Add"), named("add")),
    _arithmetic(
        "sub", "The difference of two tensors, element by element.", _binary("Sub"), named("subtract")
    ),
    _arithmetic("mul", "The product of two tensors, element by element.", _binary("Mul"), named("multiply")),
    _arithmetic(
        "real_div",
        "The quotient of two tensors, element by element; of integers, rounded towards zero.",
        _real_div,
        _fold_real_div,
    ),
    _arithmetic(
        "floor_div",
        "The quotient of two tensors, rounded down.",
        _floor_div,
        named("floor_divide"),
        flops=2,
        traits=Trait.ELEMENTWISE,
    ),
    _arithmetic(
        "mod",
        "The remainder of division rounded down, with the sign of the divisor.",
        _mod,
        _fold_mod,
        flops=4,
        traits=Trait.ELEMENTWISE,
    ),
    _arithmetic(
        "pow",
        "The first tensor raised to the power of the second.",
        _binary("Pow"),
        _power,
        traits=Trait.ELEMENTWISE,
    ),
    _arithmetic("maximum", "The larger of two elements.", _binary("Max"), named("maximum")),
    _arithmetic("minimum", "The smaller of two elements.", _binary("Min"), named("minimum")),
    _comparison("equal", "True where two tensors are equal.", _compare("Equal"), named("equal")),
    _comparison("not_equal", "True where two tensors differ.", _not_equal, named("not_equal")),
    _comparison("greater", "True where the first is larger.", _compare("Greater"), named("greater")),
    _comparison(
        "greater_equal",
        "True where the first is not smaller.",
        _compare("GreaterOrEqual"),
        named("greater_equal"),
    ),
    _comparison("less", "True where the first is smaller.", _compare("Less"), named("less")),
    _comparison(
        "less_equal", "True where the first is not larger.", _compare("LessOrEqual"), named("less_equal")
    ),
    _comparison("logical_and", "True where both are true.", _logical("And"), named("logical_and")),
    _comparison("logical_or", "True where at least one is true.", _logical("Or"), named("logical_or")),
    _comparison("logical_xor", "True where exactly one is true.", _logical("Xor"), named("logical_xor")),
)
