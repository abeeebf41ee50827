"""Elementwise functions of one, two or three blobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coremlscope.formats.espresso.axes import keep
from coremlscope.formats.espresso.fused import apply_fused
from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.arithmetic import chain, in_one_layout
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate

_SELECT = 101

#: `operation` of two blobs.
_BINARY = {
    0: "add",
    1: "mul",
    13: "pow",
    22: "minimum",
    23: "maximum",
    33: "sub",
    36: "mod",
    102: "real_div",
    1021: "floor_div",
}
#: `operation` that compares two blobs, and that compares a blob with `alpha`.
_COMPARISONS = {
    100: "equal",
    103: "less",
    104: "less_equal",
    105: "greater",
    106: "greater_equal",
    107: "not_equal",
}
_COMPARISONS_WITH_ALPHA = {
    131: "less",
    132: "less_equal",
    133: "greater",
    134: "greater_equal",
    135: "not_equal",
    136: "equal",
}
#: `operation` of one blob without parameters.
_UNARY = {
    8: "square",
    11: "sqrt",
    24: "abs",
    27: "exp",
    35: "exp2",
    37: "round",
    38: "sign",
    114: "cos",
    115: "sin",
    117: "floor",
    118: "ceil",
    121: "tan",
    122: "cosh",
    123: "sinh",
    124: "tanh",
    125: "acos",
    126: "asin",
    127: "atan",
    130: "atanh",
}


def _alpha(t: Translation) -> float:
    return float(t.layer.number("alpha", 1.0))


def _epsilon(t: Translation) -> float:
    return float(t.layer.number("eps", 0.0))


#: `operation` of one blob with parameters.
_PARAMETRIC: Mapping[int, Callable[[Translation], Blob]] = {
    0: lambda t: t.builder.op("add", x=t.x, y=_alpha(t)),
    1: lambda t: t.builder.op("mul", x=t.x, y=_alpha(t)),
    2: lambda t: t.builder.op("add", x=t.x, y=_alpha(t)),
    3: lambda t: t.builder.op("mul", x=t.x, y=_alpha(t)),
    10: lambda t: t.builder.op("inverse", x=t.x, epsilon=_epsilon(t)),
    12: lambda t: t.builder.op("rsqrt", x=t.x, epsilon=_epsilon(t)),
    25: lambda t: t.builder.op("threshold", x=t.x, alpha=_alpha(t)),
    26: lambda t: t.builder.op("log", x=t.x, epsilon=_epsilon(t)),
    112: lambda t: t.builder.floats(t.builder.op("equal", x=t.x, y=0.0)),
    119: lambda t: t.builder.op("clip", x=t.x, alpha=_alpha(t), beta=float(t.layer.number("beta", 0.0))),
}
_USES_ALPHA = {0, 1, 2, 3, 25, 119}
_USES_BETA = {119}


def _elementwise(t: Translation) -> Blob:
    operation = t.layer.integer("operation")
    result = _one(t, operation) if len(t.inputs) == 1 else _several(t, operation)
    return apply_fused(t, result)


def _one(t: Translation, operation: int) -> Blob:
    b, x = t.builder, t.x
    if operation in _COMPARISONS_WITH_ALPHA:
        result = b.floats(b.op(_COMPARISONS_WITH_ALPHA[operation], x=x, y=_alpha(t)))
    elif operation in _UNARY:
        result = b.op(_UNARY[operation], x=x)
    elif operation in _PARAMETRIC:
        result = _PARAMETRIC[operation](t)
    elif operation in (13, 22, 23):
        result = b.op(_BINARY[operation], x=x, y=_alpha(t))
        t.doubt(f"the second operand of its operation {operation} with one input is not established")
    else:
        raise CannotTranslate(f"the meaning of its operation {operation} is unknown")
    uses_alpha = operation in _USES_ALPHA or operation in _COMPARISONS_WITH_ALPHA or operation in (13, 22, 23)
    _check_unused(t, uses_alpha=uses_alpha, uses_beta=operation in _USES_BETA)
    return keep(result, x)


def _several(t: Translation, operation: int) -> Blob:
    b = t.builder
    _check_unused(t, uses_alpha=False, uses_beta=False)
    if operation in _BINARY:
        return chain(b, _BINARY[operation], t.inputs)
    if operation in _COMPARISONS and len(t.inputs) == 2:
        first, second = in_one_layout(b, t.inputs)
        result = b.floats(b.op(_COMPARISONS[operation], x=first, y=second))
        return keep(result, first)
    if operation == _SELECT and len(t.inputs) == 3:
        condition, first, second = in_one_layout(b, t.inputs)
        return keep(b.op("select", cond=b.flags(condition), a=first, b=second), first)
    raise CannotTranslate(f"the meaning of its operation {operation} with {len(t.inputs)} inputs is unknown")


def _check_unused(t: Translation, *, uses_alpha: bool, uses_beta: bool) -> None:
    """Doubts a layer with an effective value of a parameter that its function does not have."""
    if not uses_alpha and _alpha(t) != 1.0:
        t.doubt(f"the meaning of alpha = {_alpha(t):g} in its operation is not established")
    if not uses_beta and t.layer.number("beta", 0.0) != 0.0:
        t.doubt(f"the meaning of beta = {t.layer.number('beta'):g} in its operation is not established")


LAYERS: tuple[LayerSpec, ...] = (LayerSpec("elementwise", _elementwise, inputs=(1, -1)),)
