"""Normalizations."""

from __future__ import annotations

from coremlscope.formats.espresso.axes import keep
from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.espresso.weights import read_columns, read_floats
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate

#: Added to a variance if the file does not say what: the default of Core ML's layers.
_BATCH_EPSILON, _L2_EPSILON = 1e-5, 1e-6
_CHANNELS = 2


def _batch_norm(t: Translation) -> Blob:
    """Batch normalization, or that of each item. Its blob has gamma, beta, mean and variance per channel."""
    b, layer, x = t.builder, t.layer, t.x
    images, channels = b.images(x), layer.size("C")
    number = layer.attributes.get("blob_batchnorm_params")
    gamma, beta, mean, variance = read_columns(t, number, channels, 4)
    epsilon = float(layer.number("training_eps", _BATCH_EPSILON))
    if layer.flag("training_instancenorm") or (layer.flag("training") and images.dims[0] == 1):
        result = b.op("instance_norm", x=images, gamma=gamma, beta=beta, epsilon=epsilon)
    elif layer.flag("training"):
        raise CannotTranslate("it normalizes a batch of several items")
    else:
        result = b.op(
            "batch_norm", x=images, mean=mean, variance=variance, gamma=gamma, beta=beta, epsilon=epsilon
        )
    return b.like(result, x)


def _layer_norm(t: Translation) -> Blob:
    """Normalization along the innermost axis."""
    b, x = t.builder, t.builder.tensor(t.x)
    roles = t.layer.weights
    if set(roles) != {"wGamma", "wBeta"}:
        raise CannotTranslate(f"the meaning of its weights ({', '.join(sorted(roles))}) is unknown")
    gamma, beta = (read_floats(t, roles[name], (x.shape[-1],)) for name in ("wGamma", "wBeta"))
    epsilon = float(t.layer.number("eps"))
    return b.op("layer_norm", x=x, axes=[-1], gamma=gamma, beta=beta, epsilon=epsilon)


def _l2_normalize(t: Translation) -> Blob:
    """Division by the norm over channels, height and width."""
    layer, x = t.layer, t.x
    if layer.integer("normalization_mode", 0):
        t.doubt("the meaning of its attribute normalization_mode is not established")
    others = x.dims[-2:] if layer.integer("axis", _CHANNELS) == _CHANNELS else x.dims[-3:]
    if "axis" in layer.attributes and any(size != 1 for size in others):
        t.doubt("the axes of its norm are not established")
    result = t.builder.op("l2_norm", x=x, epsilon=float(layer.number("eps", _L2_EPSILON)))
    return keep(result, x)


def _local_response(t: Translation) -> Blob:
    b, layer = t.builder, t.layer
    result = b.op(
        "local_response_norm",
        x=b.images(t.x),
        size=layer.size("local_size"),
        alpha=float(layer.number("alpha", 1.0)),
        beta=float(layer.number("beta", 0.0)),
        k=float(layer.number("k", 1.0)),
    )
    return b.like(result, t.x)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("batchnorm", _batch_norm),
    LayerSpec("instancenorm_1d", _layer_norm),
    LayerSpec("l2_normalize", _l2_normalize),
    LayerSpec("lrn", _local_response),
)
