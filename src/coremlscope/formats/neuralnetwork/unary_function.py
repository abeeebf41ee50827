"""The layer of the first versions that applies an elementwise function given by its parameters."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.builder import Blob, Builder
from coremlscope.formats.neuralnetwork.translation import Translation
from coremlscope.model.schema import Message

#: The default of epsilon, which is added to a divisor.
_EPSILON = 1e-6


def unary(t: Translation) -> Blob:
    """Applies a function to `scale * x + shift`."""
    b, p, x = t.builder, t.params, t.x
    scale, shift = float(p.scale) or 1.0, float(p.shift)
    moved = x
    if (scale, shift) != (1.0, 0.0):
        moved = b.op("linear_activation", x=x, alpha=scale, beta=shift)
    result: Blob = _FUNCTIONS[p.type](b, p, moved)
    return replace(result, sequence=x.sequence)


def _epsilon(p: Message) -> float:
    return float(p.epsilon) or _EPSILON


#: `Operation`: SQRT, RSQRT, INVERSE, POWER, EXP, LOG, ABS and THRESHOLD.
_FUNCTIONS: tuple[Callable[[Builder, Message, Blob], Blob], ...] = (
    lambda b, p, x: b.op("sqrt", x=x),
    lambda b, p, x: b.op("rsqrt", x=x, epsilon=_epsilon(p)),
    lambda b, p, x: b.op("inverse", x=x, epsilon=_epsilon(p)),
    lambda b, p, x: b.op("pow", x=x, y=float(p.alpha)),
    lambda b, p, x: b.op("exp", x=x),
    lambda b, p, x: b.op("log", x=x, epsilon=float(p.epsilon)),
    lambda b, p, x: b.op("abs", x=x),
    lambda b, p, x: b.op("threshold", x=x, alpha=float(p.alpha)),
)
