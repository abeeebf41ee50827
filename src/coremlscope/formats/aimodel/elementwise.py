"""Operations on single elements: functions of one, two and three arguments, and casts."""

from __future__ import annotations

from collections.abc import Callable

from coremlscope.formats.aimodel.translation import Operand, Row, Translation
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate, Given
from coremlscope.ir import DType

__all__ = ["ROWS"]

#: Forms of GELU by the number of the attribute `approximate`.
_GELU = ("EXACT", "TANH_APPROXIMATION")

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
    "modulo": "mod",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
}
#: Logical operations that Core AI also has for the bits of integers, which Core ML does not have.
_BITWISE = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}

#: The types to which Core ML casts.
_CASTS = (DType.FP16, DType.FP32, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.BOOL)


def is_boolean(operand: Operand) -> bool:
    """True for a tensor of booleans."""
    type_ = operand.bound.type if isinstance(operand, Blob) else getattr(operand, "type", None)
    return getattr(type_, "dtype", None) is DType.BOOL


def _unary(name: str) -> Callable[[Translation], Operand]:
    type_, others = _UNARY[name]
    return lambda t: t.builder.op(type_, named="", x=t.x, **others)


def _binary(type_: str) -> Callable[[Translation], Operand]:
    return lambda t: t.builder.op(type_, x=t.x, y=t.tensor(1))


def _divide(t: Translation) -> Operand:
    """Divides; integers towards zero."""
    if t.dtype.is_float:
        return t.builder.op("real_div", x=t.x, y=t.tensor(1))
    b = t.builder
    quotient = b.op("real_div", x=_cast_to(t, t.x, DType.FP32), y=_cast_to(t, t.tensor(1), DType.FP32))
    return b.op("cast", x=quotient, dtype=DType.INT32.value)


def _cast_to(t: Translation, x: Given, dtype: DType) -> Blob:
    return t.builder.op("cast", x=x, dtype=dtype.value)


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
    return _cast_to(t, t.x, dtype)


def _where(t: Translation) -> Operand:
    return t.builder.op("select", cond=t.x, a=t.tensor(1), b=t.tensor(2))


def _inverse_hyperbolic(sign: float) -> Callable[[Translation], Operand]:
    """Computes log(x + √(x² + sign)): asinh for 1, acosh for -1."""

    def translate(t: Translation) -> Operand:
        b = t.builder
        root = b.op("sqrt", x=b.op("add", x=b.op("mul", x=t.x, y=t.x), y=sign))
        return b.op("log", x=b.op("add", x=t.x, y=root), epsilon=0.0)

    return translate


def _both(rows: dict[str, Row]) -> dict[str, Row]:
    """Returns rows for the operations, and for their forms that broadcast."""
    return {**rows, **{f"broadcasting_{name}": row for name, row in rows.items()}}


#: Operations on elements by name.
ROWS: dict[str, Row] = {
    **{name: Row(_unary(name), (1, 1)) for name in _UNARY},
    "acosh": Row(_inverse_hyperbolic(-1.0), (1, 1)),
    "asinh": Row(_inverse_hyperbolic(1.0), (1, 1)),
    "gelu": Row(_gelu, (1, 1)),
    "cast": Row(_cast, (1, 1)),
    **_both(
        {
            **{name: Row(_binary(type_), (2, 2)) for name, type_ in _BINARY.items()},
            **{name: Row(_bitwise(type_), (2, 2)) for name, type_ in _BITWISE.items()},
            "divide": Row(_divide, (2, 2)),
            "where": Row(_where, (3, 3)),
        }
    ),
}
