"""Operations on single elements: functions of one, two and three arguments, and casts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coremlscope.formats.aimodel.translation import Operand, Row, Translation
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate, Given
from coremlscope.model.ir import DType

#: Forms of GELU by the number of the attribute `approximate`.
_GELU = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")

#: Core ML's name of each function of one argument, and its other arguments.
_UNARY: dict[str, tuple[str, dict[str, float]]] = {
    **{
        name: (name, {})
        for name in (
            *(
                "abs",
                "acos",
                "asin",
                "atan",
                "atanh",
                "cos",
                "cosh",
                "erf",
                "exp",
                "relu",
                "round",
                "sigmoid",
            ),
            *("silu", "sin", "sinh", "sqrt", "tan", "tanh"),
        )
    },
    "log": ("log", {"epsilon": 0.0}),
    "rsqrt": ("rsqrt", {"epsilon": 0.0}),
    "not": ("logical_not", {}),
}
#: Core ML's name of each function of two arguments.
_BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "pow": "pow",
    "maximum": "maximum",
    "minimum": "minimum",
    "equal": "equal",
    "not_equal": "not_equal",
    "greater": "greater",
    "floor_divide": "floor_div",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
}
#: Logical operations that Core AI also has for the bits of integers, which Core ML does not have.
_BITWISE = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}

#: The limits of integers that are narrower than those that Core ML computes with.
_NARROW = {
    DType.INT8: (-(2**7), 2**7 - 1),
    DType.UINT8: (0, 2**8 - 1),
    DType.INT16: (-(2**15), 2**15 - 1),
    DType.UINT16: (0, 2**16 - 1),
}
#: The largest number of float16.
_LARGEST_HALF = 65504
#: The types to which Core ML casts.
_CASTS = (DType.FP16, DType.FP32, *_NARROW, DType.INT32, DType.BOOL)


def is_boolean(operand: Operand) -> bool:
    """True for a tensor of booleans."""
    return _dtype_of(operand) is DType.BOOL


def _dtype_of(operand: Operand) -> DType | None:
    """Returns the element type of a tensor; None for other operands."""
    type_ = operand.bound.type if isinstance(operand, Blob) else getattr(operand, "type", None)
    dtype: DType | None = getattr(type_, "dtype", None)
    return dtype


def _unary(name: str) -> Callable[[Translation], Operand]:
    type_, others = _UNARY[name]
    return lambda t: t.builder.op(type_, named="", x=t.x, **others)


def _binary(type_: str) -> Callable[[Translation], Operand]:
    return lambda t: t.builder.op(type_, x=t.x, y=t.tensor(1))


def _divide(t: Translation) -> Operand:
    """Divides; integers towards zero."""
    b, x, y = t.builder, t.x, t.tensor(1)
    if t.dtype.is_float:
        return b.op("real_div", x=x, y=y)
    quotient = b.op("floor_div", x=b.op("abs", x=x), y=b.op("abs", x=y))
    return b.op("mul", x=quotient, y=b.op("mul", x=b.op("sign", x=x), y=b.op("sign", x=y)))


def _modulo(t: Translation) -> Operand:
    """Returns the remainder with the sign of the dividend; Core ML's `mod` has that of the divisor."""
    b = t.builder
    remainder = b.op("mod", x=b.op("abs", x=t.x), y=b.op("abs", x=t.tensor(1)))
    return b.op("mul", x=remainder, y=b.op("sign", x=t.x))


def _bitwise(type_: str) -> Callable[[Translation], Operand]:
    def translate(t: Translation) -> Operand:
        if not is_boolean(t.x):
            raise CannotTranslate("Core ML has no operations on the bits of integers")
        return t.builder.op(type_, x=t.x, y=t.tensor(1))

    return translate


def _gelu(t: Translation) -> Operand:
    number = t.choice("approximate")
    if number >= len(_GELU):
        raise CannotTranslate(f"form {number} of GELU is not known")
    return t.builder.op("gelu", x=t.x, mode=_GELU[number])


def _cast(t: Translation) -> Operand:
    """Casts; wide and unsigned integers become int32, which is all that Core ML computes with."""
    dtype = t.dtype
    if dtype.is_int and dtype not in _CASTS:
        dtype = DType.INT32
    if dtype not in _CASTS:
        raise CannotTranslate(f"a cast to {dtype.value} is not supported")
    if is_boolean(t.x) and dtype is DType.BOOL:
        return t.x
    return t.builder.op("cast", x=_limited(t, dtype), dtype=dtype.value)


def _limited(t: Translation, dtype: DType) -> Given:
    """Limits the argument to the range of narrow integers, where Core ML keeps the lowest bits."""
    b, own = t.builder, _dtype_of(t.x)
    if dtype not in _NARROW or own not in (DType.FP32, DType.FP16, DType.INT32):
        return t.x
    least, most = _NARROW[dtype]
    low = np.asarray(least, own.numpy)
    high = np.asarray(min(most, _LARGEST_HALF) if own is DType.FP16 else most, own.numpy)
    return b.op("minimum", x=b.op("maximum", x=t.x, y=low), y=high)


def _where(t: Translation) -> Operand:
    return t.builder.op("select", cond=t.x, a=t.tensor(1), b=t.tensor(2))


def _acosh(t: Translation) -> Operand:
    """Computes log(x + √(x - 1) · √(x + 1)), which has no value below 1."""
    b, one = t.builder, np.ones((), t.dtype.numpy)
    below, above = (b.op("sqrt", x=b.op("add", x=t.x, y=y)) for y in (-one, one))
    return b.op("log", x=b.op("add", x=t.x, y=b.op("mul", x=below, y=above)), epsilon=0.0)


def _asinh(t: Translation) -> Operand:
    """Computes sign(x) · log(|x| + √(x² + 1)), which loses no digits of negative numbers."""
    b, one = t.builder, np.ones((), t.dtype.numpy)
    root = b.op("sqrt", x=b.op("add", x=b.op("mul", x=t.x, y=t.x), y=one))
    positive = b.op("log", x=b.op("add", x=b.op("abs", x=t.x), y=root), epsilon=0.0)
    return b.op("mul", x=b.op("sign", x=t.x), y=positive)


def _both(rows: dict[str, Row]) -> dict[str, Row]:
    """Returns rows for the operations, and for their forms that broadcast."""
    return {**rows, **{f"broadcasting_{name}": row for name, row in rows.items()}}


#: Operations on elements by name.
ROWS: dict[str, Row] = {
    **{name: Row(_unary(name), (1, 1)) for name in _UNARY},
    "acosh": Row(_acosh, (1, 1)),
    "asinh": Row(_asinh, (1, 1)),
    "gelu": Row(_gelu, (1, 1)),
    "cast": Row(_cast, (1, 1)),
    **_both(
        {
            **{name: Row(_binary(type_), (2, 2)) for name, type_ in _BINARY.items()},
            **{name: Row(_bitwise(type_), (2, 2)) for name, type_ in _BITWISE.items()},
            "divide": Row(_divide, (2, 2)),
            "modulo": Row(_modulo, (2, 2)),
            "where": Row(_where, (3, 3)),
        }
    ),
}
