"""Activations and softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coremlscope.formats.espresso.axes import axis_from_end, keep, nd_axis, refold
from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.espresso.weights import read_floats
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate

#: The constants of Klambauer et al., "Self-Normalizing Neural Networks" (2017).
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
_CHANNELS = 2


def _alpha(t: Translation) -> float:
    return float(t.layer.number("alpha", 1.0))


def _beta(t: Translation) -> float:
    return float(t.layer.number("beta", 0.0))


def _plain(type_: str) -> Callable[[Translation], Blob]:
    return lambda t: t.builder.op(type_, x=t.x)


def _with_alpha(type_: str) -> Callable[[Translation], Blob]:
    return lambda t: t.builder.op(type_, x=t.x, alpha=_alpha(t))


def _with_both(type_: str) -> Callable[[Translation], Blob]:
    return lambda t: t.builder.op(type_, x=t.x, alpha=_alpha(t), beta=_beta(t))


def _gelu(mode: str) -> Callable[[Translation], Blob]:
    return lambda t: t.builder.op("gelu", x=t.x, mode=mode)


def _leaky(t: Translation) -> Blob:
    """A slope for negative elements: `alpha`, or one per channel if there are weights."""
    b, x, roles = t.builder, t.x, t.layer.weights
    if not roles:
        return b.op("leaky_relu", x=x, alpha=_alpha(t))
    if len(roles) > 1 or x.rank < 3:
        raise CannotTranslate(f"the meaning of its weights ({', '.join(sorted(roles))}) is unknown")
    (number,) = roles.values()
    return b.like(b.op("prelu", x=b.images(x), alpha=read_floats(t, number, (x.shape[-3],))), x)


def _selu(t: Translation) -> Blob:
    return t.builder.op("mul", x=t.builder.op("elu", x=t.x, alpha=_SELU_ALPHA), y=_SELU_SCALE)


def _step(t: Translation) -> Blob:
    return t.builder.floats(t.builder.op("greater_equal", x=t.x, y=0.0))


def _hard_swish(t: Translation) -> Blob:
    return t.builder.op("mul", x=t.x, y=t.builder.op("sigmoid_hard", x=t.x, alpha=1 / 6, beta=0.5))


#: `mode`: the function. `alpha` is 1 and `beta` 0 unless they are specified.
_FUNCTIONS: Mapping[int, Callable[[Translation], Blob]] = {
    0: _plain("relu"),
    1: _plain("tanh"),
    2: _leaky,
    3: _plain("sigmoid"),
    4: _leaky,
    5: _with_both("scaled_tanh"),
    6: _with_both("linear_activation"),
    7: _with_both("sigmoid_hard"),
    8: _with_alpha("elu"),
    9: _with_alpha("thresholded_relu"),
    10: _plain("softplus"),
    12: _plain("softsign"),
    13: lambda t: t.builder.op("maximum", x=t.x, y=_alpha(t)),
    16: _selu,
    19: _gelu("EXACT"),
    20: _plain("erf"),
    21: _gelu("TANH_APPROXIMATION"),
    22: _gelu("SIGMOID_APPROXIMATION"),
    23: _step,
    24: lambda t: t.builder.op("minimum", x=t.x, y=_alpha(t)),
    25: _plain("silu"),
    26: _hard_swish,
}


def _activation(t: Translation) -> Blob:
    mode = t.layer.integer("mode")
    if mode not in _FUNCTIONS:
        raise CannotTranslate(f"the function of its mode {mode} is unknown")
    return keep(_FUNCTIONS[mode](t), t.x)


def _softmax(t: Translation) -> Blob:
    """Softmax along the axis with the number `C`: the channels in image classifiers."""
    x = t.x
    if x.sequence is not None and t.layer.integer("C", _CHANNELS) > _CHANNELS:
        tensor = t.builder.tensor(x)
        axis = axis_from_end(t.layer.integer("C"), tensor.rank)
        return refold(t.builder, t.builder.op("softmax", x=tensor, axis=axis), x)
    axis = axis_from_end(t.layer.integer("C", _CHANNELS), x.rank)
    return keep(t.builder.op("softmax", x=x, axis=axis), x)


def _softmax_nd(t: Translation) -> Blob:
    tensor = t.builder.tensor(t.x)
    axis = nd_axis(t.layer.integer("nd_axis"), tensor.rank)
    return refold(t.builder, t.builder.op("softmax", x=tensor, axis=axis), t.x)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("activation", _activation),
    LayerSpec("softmax", _softmax),
    LayerSpec("softmax_nd", _softmax_nd),
)
