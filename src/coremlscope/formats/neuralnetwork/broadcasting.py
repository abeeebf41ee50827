"""Elementwise layers from version 4 on: functions, broadcasting arithmetic, comparisons, logic, selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.arithmetic import in_one_layout
from coremlscope.formats.neuralnetwork.builder import Blob, Builder
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translate, Translation


def _together(b: Builder, type_: str, x: Blob, y: Blob) -> Blob:
    """Emits a binary operation in the common layout of its operands."""
    left, right = in_one_layout(b, [x, y])
    result = b.op(type_, x=left, y=right)
    sequences = [blob.sequence for blob in (left, right) if blob.sequence is not None]
    return replace(result, sequence=max(sequences, default=None))


def _function(type_: str) -> Translate:
    return lambda t: replace(t.builder.op(type_, x=t.x), sequence=t.x.sequence)


def _composed(write: Callable[[Builder, Blob], Blob]) -> Translate:
    """A function that is composed of several operations."""
    return lambda t: replace(write(t.builder, t.x), sequence=t.x.sequence)


def _acosh(b: Builder, x: Blob) -> Blob:
    """`log(x + sqrt(x - 1) * sqrt(x + 1))`."""
    below, above = (b.op("sqrt", x=b.op("add", x=x, y=shift)) for shift in (-1.0, 1.0))
    return b.op("log", x=b.op("add", x=x, y=b.op("mul", x=below, y=above)), epsilon=0.0)


def _asinh(b: Builder, x: Blob) -> Blob:
    """`sign(x) * log(|x| + sqrt(x * x + 1))`, which avoids cancellation for negative numbers."""
    size = b.op("abs", x=x)
    root = b.op("sqrt", x=b.op("add", x=b.op("square", x=x), y=1.0))
    return b.op("mul", x=b.op("sign", x=x), y=b.op("log", x=b.op("add", x=size, y=root), epsilon=0.0))


def _arithmetic(type_: str) -> Translate:
    """Arithmetic of all inputs, from left to right."""

    def translate(t: Translation) -> Blob:
        result, *others = t.inputs
        for other in others:
            result = _together(t.builder, type_, result, other)
        return result

    return translate


def _comparison(type_: str) -> Translate:
    """Comparison of two inputs, or of one input with `alpha`."""

    def translate(t: Translation) -> Blob:
        b = t.builder
        if len(t.inputs) == 2:
            return b.floats(_together(b, type_, *t.inputs))
        return b.floats(replace(b.op(type_, x=t.x, y=float(t.params.alpha)), sequence=t.x.sequence))

    return translate


def _logic(type_: str) -> Translate:
    def translate(t: Translation) -> Blob:
        b = t.builder
        x, y = (b.flags(blob) for blob in t.inputs)
        return b.floats(_together(b, type_, x, y))

    return translate


def _not(t: Translation) -> Blob:
    b, x = t.builder, t.builder.flags(t.x)
    return b.floats(replace(b.op("logical_not", x=x), sequence=x.sequence))


def _where(t: Translation) -> Blob:
    b = t.builder
    condition, a, other = in_one_layout(b, t.inputs)
    result = b.op("select", cond=b.flags(condition), a=a, b=other)
    sequences = [blob.sequence for blob in (condition, a, other) if blob.sequence is not None]
    return replace(result, sequence=max(sequences, default=None))


#: Layers with the name of their operation.
_FUNCTIONS: Sequence[str] = (
    *("ceil", "erf", "exp2", "floor", "round", "sign"),
    *("acos", "asin", "atan", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"),
)

#: Operations by the layer's name without `Broadcastable`.
_ARITHMETIC = {
    "add": "add",
    "divide": "real_div",
    "floorDiv": "floor_div",
    "max": "maximum",
    "min": "minimum",
    "mod": "mod",
    "multiply": "mul",
    "pow": "pow",
    "subtract": "sub",
}

_COMPARISONS = {
    "equal": "equal",
    "greaterEqual": "greater_equal",
    "greaterThan": "greater",
    "lessEqual": "less_equal",
    "lessThan": "less",
    "notEqual": "not_equal",
}

_LOGIC = {"logicalAnd": "logical_and", "logicalOr": "logical_or", "logicalXor": "logical_xor"}

LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("acosh", _composed(_acosh)),
    LayerSpec("asinh", _composed(_asinh)),
    LayerSpec("logicalNot", _not),
    LayerSpec("whereBroadcastable", _where, (3, 3)),
    *(LayerSpec(name, _function(name)) for name in _FUNCTIONS),
    *(LayerSpec(f"{name}Broadcastable", _arithmetic(op), (2, -1)) for name, op in _ARITHMETIC.items()),
    *(LayerSpec(name, _comparison(op), (1, 2)) for name, op in _COMPARISONS.items()),
    *(LayerSpec(name, _logic(op), (2, 2)) for name, op in _LOGIC.items()),
)
