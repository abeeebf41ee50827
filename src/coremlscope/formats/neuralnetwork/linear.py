"""Matrix products."""

from __future__ import annotations

from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.formats.neuralnetwork.layer import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.weights import read_weights

__all__ = ["LAYERS"]


def _inner_product(t: Translation) -> Blob:
    """A product with a matrix, along the last dimension, or along the channels of images of one pixel."""
    b, p, x = t.builder, t.params, t.x
    taken, given = int(p.inputChannels), int(p.outputChannels)
    weight = read_weights(p.weights, (given, taken))
    bias = read_weights(p.bias, (given,)) if p.hasBias else None
    shape = x.shape
    if len(shape) >= 4 and shape[-3:] == (taken, 1, 1):
        flat = b.op("squeeze", x=x, axes=[-2, -1])
        product = b.op("linear", x=flat, weight=weight, bias=bias)
        wide = b.op("expand_dims", x=product, axes=[-2, -1])
        return Blob(wide.value, wide.bound, x.sequence)
    if x.sequence is not None or not shape or shape[-1] != taken:
        raise CannotTranslate(f"its input has the shape {list(shape)}, and its matrix takes {taken} channels")
    if len(shape) == 1:
        row = b.op("linear", x=b.op("expand_dims", x=x, axes=[0]), weight=weight, bias=bias)
        return b.op("squeeze", x=row, axes=[0])
    return b.op("linear", x=x, weight=weight, bias=bias)


LAYERS: tuple[LayerSpec, ...] = (LayerSpec("innerProduct", _inner_product),)
