"""Arithmetic layers of the first versions: sums and products of blobs and parameters."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translate, Translation
from coremlscope.formats.neuralnetwork.weights import read_weights
from coremlscope.model.ir import Constant
from coremlscope.model.schema import Message

#: Vectors with a smaller norm are treated as zero.
_TINY = 1e-12


def in_one_layout(b: Builder, blobs: Sequence[Blob]) -> list[Blob]:
    """Converts blobs to a common layout, in which axes correspond when counted from the last.

    Rank-5 blobs stay folded if sequence and batch axes are not mixed up; see `Blob.sequence`.
    """
    sequences = {blob.sequence for blob in blobs}
    if sequences == {None}:
        return list(blobs)
    # A single item is broadcast to the shape of the others.
    kinds = {(blob.sequence, blob.dims[0]) for blob in blobs if blob.dims[0] != 1}
    if None not in sequences and len(kinds) <= 1:
        return list(blobs)
    return [b.tensor(blob) for blob in blobs]


def chain(b: Builder, type_: str, blobs: Sequence[Blob]) -> Blob:
    """Combines all blobs by a binary operation with broadcasting."""
    if not blobs:
        raise CannotTranslate("it has no input")
    first, *rest = in_one_layout(b, blobs)
    result, sequence = first, first.sequence
    for blob in rest:
        result = b.op(type_, x=result, y=blob)
        if blob.sequence is not None and sequence is not None:
            sequence = max(sequence, blob.sequence)
    return replace(result, sequence=sequence)


def _sum_or_product(type_: str) -> Translate:
    """Sum or product of all inputs, or of a single input and `alpha`."""

    def translate(t: Translation) -> Blob:
        if len(t.inputs) > 1:
            return chain(t.builder, type_, t.inputs)
        return replace(t.builder.op(type_, x=t.x, y=float(t.params.alpha)), sequence=t.x.sequence)

    return translate


def _extreme(type_: str) -> Translate:
    return lambda t: chain(t.builder, type_, t.inputs)


def _average(t: Translation) -> Blob:
    total = chain(t.builder, "add", t.inputs)
    mean = t.builder.op("mul", x=total, y=1.0 / len(t.inputs))
    return replace(mean, sequence=total.sequence)


def _dot(t: Translation) -> Blob:
    """Dot product along the channels, of unit vectors for the cosine similarity."""
    b, blobs = t.builder, in_one_layout(t.builder, t.inputs)
    if t.params.cosineSimilarity:
        blobs = [replace(b.op("l2_norm", x=blob, epsilon=_TINY), sequence=blob.sequence) for blob in blobs]
    product = chain(b, "mul", blobs)
    total = b.op("reduce_sum", x=product, axes=[-3], keep_dims=True)
    return replace(total, sequence=product.sequence)


def _per_image(message: Message, given: Sequence[int], x: Blob) -> Constant:
    """Reads parameters of shape `[1]`, `[C]`, `[1, H, W]` or `[C, H, W]` for broadcasting."""
    shape = tuple(int(size) for size in given)
    if len(shape) == 1 and shape != (1,):
        shape = (*shape, 1, 1)
    if len(shape) > x.rank:
        raise CannotTranslate(f"it has parameters of shape {list(shape)} for a tensor of rank {x.rank}")
    return read_weights(message, shape)


def _scale(t: Translation) -> Blob:
    b, p, x = t.builder, t.params, t.x
    result = b.op("mul", x=x, y=_per_image(p.scale, p.shapeScale, x))
    if p.hasBias:
        result = b.op("add", x=result, y=_per_image(p.bias, p.shapeBias, x))
    return replace(result, sequence=x.sequence)


def _bias(t: Translation) -> Blob:
    p, x = t.params, t.x
    return replace(t.builder.op("add", x=x, y=_per_image(p.bias, p.shape, x)), sequence=x.sequence)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("add", _sum_or_product("add"), inputs=(1, -1)),
    LayerSpec("average", _average, inputs=(1, -1)),
    LayerSpec("bias", _bias),
    LayerSpec("dot", _dot, inputs=(2, 2)),
    LayerSpec("max", _extreme("maximum"), inputs=(1, -1)),
    LayerSpec("min", _extreme("minimum"), inputs=(1, -1)),
    LayerSpec("multiply", _sum_or_product("mul"), inputs=(1, -1)),
    LayerSpec("scale", _scale),
)
