"""Matrix products."""

from __future__ import annotations

import math

from coremlscope.formats.espresso.fused import apply_fused
from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.espresso.weights import read_bias, read_weights
from coremlscope.formats.neuralnetwork.builder import Blob
from coremlscope.formats.neuralnetwork.linear import inner_product, product_along_last


def _inner_product(t: Translation) -> Blob:
    b, layer, x = t.builder, t.layer, t.x
    taken, given = layer.size("nB"), layer.size("nC")
    if layer.flag("is_lookup"):
        return _look_up(t, taken, given)
    weight, bias = read_weights(t, (given, taken)), read_bias(t, given)
    is_last = layer.flag("nd_mode") or (x.rank >= 4 and x.dims[-1] == taken != math.prod(x.shape[-3:]))
    if is_last and x.sequence is None:
        return apply_fused(t, product_along_last(b, x, weight, bias, taken))
    return apply_fused(t, inner_product(b, x, weight, bias, taken))


def _look_up(t: Translation, words: int, size: int) -> Blob:
    """Takes the row of a matrix for each number."""
    b, x = t.builder, t.x
    t.doubt_weights("the order of the weights of a table is not established")
    places = b.op("squeeze", x=x, axes=[-1] if t.layer.flag("nd_mode") else [-3, -2, -1])
    rows = b.op(
        "gather",
        x=read_weights(t, (words, size)),
        indices=b.indices(places),
        axis=0,
        validate_indices=False,
    )
    rows = b.floats(rows)
    bias = read_bias(t, size)
    rows = rows if bias is None else b.op("add", x=rows, y=bias)
    return rows if t.layer.flag("nd_mode") else b.like(b.op("expand_dims", x=rows, axes=[-2, -1]), x)


def _batch_matmul(t: Translation) -> Blob:
    b, layer = t.builder, t.layer
    if layer.flag("channel_mode"):
        t.doubt("the meaning of its attribute channel_mode is not established")
    x, y = (b.tensor(blob) for blob in t.inputs)
    return b.op(
        "matmul", x=x, y=y, transpose_x=layer.flag("transpose_x"), transpose_y=layer.flag("transpose_y")
    )


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("batch_matmul", _batch_matmul, inputs=(2, 2)),
    LayerSpec("inner_product", _inner_product),
)
