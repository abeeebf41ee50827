"""Normalizations."""

from __future__ import annotations

from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.weights import is_empty, read_weights
from coremlscope.model.ir import Constant
from coremlscope.model.schema import Message

#: The default of epsilon, which is added to a variance.
_EPSILON = 1e-6
_BATCH_EPSILON = 1e-5


def _per_channel(message: Message, channels: int, *shape: int) -> Constant | None:
    """Reads one parameter per channel, of shape `[channels, *shape]`; None if there are none."""
    return None if is_empty(message) else read_weights(message, (channels, *shape))


def _batch_norm(t: Translation) -> Blob:
    """Batch normalization with given moments, with those of each item, or with those of the whole batch."""
    b, p, x = t.builder, t.params, t.x
    images, channels = b.images(x), int(p.channels)
    epsilon = float(p.epsilon) or _BATCH_EPSILON
    gamma, beta = (_per_channel(m, channels) for m in (p.gamma, p.beta))
    if not p.computeMeanVar:
        mean, variance = (read_weights(m, (channels,)) for m in (p.mean, p.variance))
        result = b.op(
            "batch_norm", x=images, mean=mean, variance=variance, gamma=gamma, beta=beta, epsilon=epsilon
        )
    elif p.instanceNormalization or images.dims[0] == 1:
        result = b.op("instance_norm", x=images, gamma=gamma, beta=beta, epsilon=epsilon)
    else:
        result = b.op("layer_norm", x=images, axes=[0, 2, 3], epsilon=epsilon)
        if gamma is not None:
            result = b.op("mul", x=result, y=_per_channel(p.gamma, channels, 1, 1))
        if beta is not None:
            result = b.op("add", x=result, y=_per_channel(p.beta, channels, 1, 1))
    return b.like(result, x)


def _mean_variance(t: Translation) -> Blob:
    """Normalization of each channel or across all channels, optionally without dividing by the deviation."""
    b, p, x = t.builder, t.params, t.x
    axes = [-3, -2, -1] if p.acrossChannels else [-2, -1]
    if x.rank < len(axes):
        raise CannotTranslate(f"its input must be images, not a tensor of rank {x.rank}")
    if p.normalizeVariance:
        result = b.op("layer_norm", x=x, axes=axes, epsilon=float(p.epsilon) or _EPSILON)
    else:
        mean = b.op("reduce_mean", x=x, axes=axes, keep_dims=True)
        result = b.op("sub", x=x, y=mean)
    return replace(result, sequence=x.sequence)


def _l2_normalize(t: Translation) -> Blob:
    result = t.builder.op("l2_norm", x=t.x, epsilon=float(t.params.epsilon) or _EPSILON)
    return replace(result, sequence=t.x.sequence)


def _local_response(t: Translation) -> Blob:
    b, p, x = t.builder, t.params, t.x
    result = b.op(
        "local_response_norm",
        x=b.images(x),
        size=int(p.localSize),
        alpha=float(p.alpha),
        beta=float(p.beta),
        k=float(p.k) or 1.0,
    )
    return b.like(result, x)


def _layer_norm(t: Translation) -> Blob:
    b, p = t.builder, t.params
    shape = tuple(int(size) for size in p.normalizedShape)
    x = b.tensor(t.x)
    if not shape or x.dims[-len(shape) :] != shape:
        raise CannotTranslate(f"its shape {list(shape)} does not match a tensor of shape {list(x.dims)}")
    gamma, beta = (None if is_empty(m) else read_weights(m, shape) for m in (p.gamma, p.beta))
    axes = list(range(-len(shape), 0))
    return b.op("layer_norm", x=x, axes=axes, gamma=gamma, beta=beta, epsilon=float(p.eps))


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("batchnorm", _batch_norm),
    LayerSpec("l2normalize", _l2_normalize),
    LayerSpec("layerNormalization", _layer_norm),
    LayerSpec("lrn", _local_response),
    LayerSpec("mvn", _mean_variance),
)
