"""Activations, and other elementwise functions with their own layer type."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.unary_function import unary
from coremlscope.formats.neuralnetwork.weights import weight_values
from coremlscope.model.ir import Array
from coremlscope.model.schema import Message


def activate(b: Builder, message: Message, x: Blob) -> Blob:
    """Applies the function that `ActivationParams` specifies to every element.

    Raises:
        CannotTranslate: No function is specified.
    """
    kind = message.WhichOneof("NonlinearityType")
    if kind is None:
        raise CannotTranslate("it does not specify a function")
    return replace(_FUNCTIONS[kind](b, getattr(message, kind), x), sequence=x.sequence)


def _plain(type_: str) -> Callable[[Builder, Message, Blob], Blob]:
    return lambda b, p, x: b.op(type_, x=x)


def _with_alpha(type_: str) -> Callable[[Builder, Message, Blob], Blob]:
    return lambda b, p, x: b.op(type_, x=x, alpha=float(p.alpha))


def _with_alpha_and_beta(type_: str) -> Callable[[Builder, Message, Blob], Blob]:
    return lambda b, p, x: b.op(type_, x=x, alpha=float(p.alpha), beta=float(p.beta))


def _channels(message: Message, x: Blob) -> Array:
    """Reads one parameter per channel, or a single one for all channels."""
    given = np.asarray(weight_values(message), np.float32)
    if x.rank < 3:
        raise CannotTranslate(f"it has parameters per channel, but a tensor of rank {x.rank} has no channels")
    channels = x.shape[-3]
    if given.size not in (1, channels):
        raise CannotTranslate(f"it has {given.size} parameters for {channels} channels")
    return np.broadcast_to(given, (channels,)).copy()


def _prelu(b: Builder, p: Message, x: Blob) -> Blob:
    images = b.images(x)
    return b.like(b.op("prelu", x=images, alpha=_channels(p.alpha, x)), x)


def _softplus_parametric(b: Builder, p: Message, x: Blob) -> Blob:
    images = b.images(x)
    alpha, beta = _channels(p.alpha, x), _channels(p.beta, x)
    return b.like(b.op("softplus_parametric", x=images, alpha=alpha, beta=beta), x)


def _linear(b: Builder, p: Message, x: Blob) -> Blob:
    return b.op("linear_activation", x=x, alpha=float(p.alpha), beta=float(p.beta))


_FUNCTIONS: Mapping[str, Callable[[Builder, Message, Blob], Blob]] = {
    "linear": _linear,
    "ReLU": _plain("relu"),
    "leakyReLU": _with_alpha("leaky_relu"),
    "thresholdedReLU": _with_alpha("thresholded_relu"),
    "PReLU": _prelu,
    "tanh": _plain("tanh"),
    "scaledTanh": _with_alpha_and_beta("scaled_tanh"),
    "sigmoid": _plain("sigmoid"),
    "sigmoidHard": _with_alpha_and_beta("sigmoid_hard"),
    "ELU": _with_alpha("elu"),
    "softsign": _plain("softsign"),
    "softplus": _plain("softplus"),
    "parametricSoftplus": _softplus_parametric,
}


def _activation(t: Translation) -> Blob:
    return activate(t.builder, t.params, t.x)


def _clip(t: Translation) -> Blob:
    result = t.builder.op("clip", x=t.x, alpha=float(t.params.minVal), beta=float(t.params.maxVal))
    return replace(result, sequence=t.x.sequence)


def _clamped_relu(t: Translation) -> Blob:
    result = t.builder.op("clamped_relu", x=t.x, alpha=float(t.params.alpha), beta=float(t.params.beta))
    return replace(result, sequence=t.x.sequence)


def _gelu(t: Translation) -> Blob:
    return replace(t.builder.op("gelu", x=t.x, mode=_GELU_MODES[t.params.mode]), sequence=t.x.sequence)


def _softmax(t: Translation) -> Blob:
    """Softmax along the channels: the third axis from the end, or the last one of a matrix.

    Create ML's action classifiers have matrices of `[batch, classes]`, which Core ML runs, although the
    format asks for three dimensions.
    """
    if t.x.rank < 2:
        raise CannotTranslate(f"its input has {t.x.rank} dimensions, but at least 2 are required")
    axis = -1 if t.x.rank == 2 else -3
    return replace(t.builder.op("softmax", x=t.x, axis=axis), sequence=t.x.sequence)


def _softmax_nd(t: Translation) -> Blob:
    return t.builder.op("softmax", x=t.builder.tensor(t.x), axis=int(t.params.axis))


#: `GeluMode`.
_GELU_MODES = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")

LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("activation", _activation),
    LayerSpec("clampedReLU", _clamped_relu),
    LayerSpec("clip", _clip),
    LayerSpec("gelu", _gelu),
    LayerSpec("softmax", _softmax),
    LayerSpec("softmaxND", _softmax_nd),
    LayerSpec("unary", unary),
)
