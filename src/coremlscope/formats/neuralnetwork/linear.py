"""Matrix products and embeddings."""

from __future__ import annotations

import math

from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.weights import read_weights
from coremlscope.model.ir import Constant


def _inner_product(t: Translation) -> Blob:
    p = t.params
    taken, given = int(p.inputChannels), int(p.outputChannels)
    weight = read_weights(p.weights, (given, taken))
    bias = read_weights(p.bias, (given,)) if p.hasBias else None
    return inner_product(t.builder, t.x, weight, bias, taken)


def inner_product(b: Builder, x: Blob, weight: Constant, bias: Constant | None, taken: int) -> Blob:
    """Emits a product along the last axis, or, from rank 4 on, along the last three axes merged.

    Args:
        b: The builder.
        x: The input.
        weight: A matrix with one row per output channel.
        bias: A summand per output channel; None for none.
        taken: The number of input channels.

    Raises:
        CannotTranslate: The input has another number of channels.
    """
    if x.rank < 4:
        return product_along_last(b, x, weight, bias, taken)
    last = x.shape[-3:]
    if last[1:] == (1, 1):
        flat = b.op("squeeze", x=x, axes=[-2, -1])
    else:
        flat = b.op("reshape", x=x, shape=(*x.shape[:-3], math.prod(last)))
    product = product_along_last(b, flat, weight, bias, taken)
    return replace(b.op("expand_dims", x=product, axes=[-2, -1]), sequence=x.sequence)


def product_along_last(b: Builder, x: Blob, weight: Constant, bias: Constant | None, taken: int) -> Blob:
    """Emits a product along the last axis; see `inner_product`."""
    if not x.dims or x.dims[-1] not in (taken, None):
        raise CannotTranslate(
            f"its input has the shape {list(x.dims)}, but its matrix requires {taken} channels"
        )
    if x.rank > 1:
        return b.op("linear", x=x, weight=weight, bias=bias)
    row = b.op("linear", x=b.op("expand_dims", x=x, axes=[0]), weight=weight, bias=bias)
    return b.op("squeeze", x=row, axes=[0])


def _batched_product(t: Translation) -> Blob:
    """Product of two inputs, or of one input with the layer's matrix. Vectors are treated as matrices."""
    b, p = t.builder, t.params
    x = b.tensor(t.x)
    if len(t.inputs) == 1:
        taken, given = int(p.weightMatrixFirstDimension), int(p.weightMatrixSecondDimension)
        # It is stored in column-major order, which is the row-major order of the transpose that `linear`
        # uses.
        weight = read_weights(p.weights, (given, taken))
        bias = read_weights(p.bias, (given,)) if p.hasBias else None
        return product_along_last(b, x, weight, bias, taken)
    y = b.tensor(t.inputs[1])
    if x.rank == 1:
        x = b.op("expand_dims", x=x, axes=[0])
    if y.rank == 1:
        y = b.op("expand_dims", x=y, axes=[1])
    return b.op("matmul", x=x, y=y, transpose_x=bool(p.transposeA), transpose_y=bool(p.transposeB))


def _embedding(t: Translation) -> Blob:
    """Looks up a column of a matrix for each number in `[n, 1, 1, 1]`."""
    b, p, x = t.builder, t.params, t.x
    if x.rank not in (4, 5) or x.dims[-3:] != (1, 1, 1):
        raise CannotTranslate(f"its input must have one number per item, not the shape {list(x.dims)}")
    places = b.op("squeeze", x=x, axes=[-3, -2, -1])
    rows = _rows(t, places, int(p.inputDim), int(p.outputChannels))
    return replace(b.op("expand_dims", x=rows, axes=[-2, -1]), sequence=x.sequence)


def _embedding_nd(t: Translation) -> Blob:
    """Looks up a column of a matrix for each number in `[..., 1]`."""
    b, p = t.builder, t.params
    x = b.tensor(t.x)
    if x.rank < 2 or x.dims[-1] not in (1, None):
        raise CannotTranslate(f"its input must have one number per item, not the shape {list(x.dims)}")
    return _rows(t, b.op("squeeze", x=x, axes=[-1]), int(p.vocabSize), int(p.embeddingSize))


def _rows(t: Translation, places: Blob, words: int, size: int) -> Blob:
    b, p = t.builder, t.params
    table = read_weights(p.weights, (size, words), is_transposed=True)
    rows = b.floats(b.op("gather", x=table, indices=b.indices(places), axis=0, validate_indices=False))
    return b.op("add", x=rows, y=read_weights(p.bias, (size,))) if p.hasBias else rows


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("batchedMatmul", _batched_product, inputs=(1, 2)),
    LayerSpec("embedding", _embedding),
    LayerSpec("embeddingND", _embedding_nd),
    LayerSpec("innerProduct", _inner_product),
)
