"""Small language models: decoders with a cache of keys and values in states."""

from __future__ import annotations

from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil import Builder as mb

from coremlscope import ir
from tests.support.programs import build

__all__ = ["decoder"]


def decoder(
    *, tokens: int = 1, context: int = 512, layers: int = 2, hidden: int = 256, heads: int = 4
) -> ir.Model:
    """A decoder that processes some tokens against a cache, which it updates.

    Args:
        tokens: Tokens in a prediction.
        context: Tokens that the cache has room for.
        layers: Number of layers.
        hidden: Width of the residual stream.
        heads: Number of heads.
    """
    size = hidden // heads
    draw = np.random.default_rng(0)

    def weight(*shape: int) -> np.ndarray:
        return (draw.standard_normal(shape) / 16).astype(np.float16)

    def split(x: Any) -> Any:
        shaped = mb.reshape(x=x, shape=[1, tokens, heads, size])
        return mb.transpose(x=shaped, perm=[0, 2, 1, 3])

    def remember(state: Any, new: Any, layer: int) -> Any:
        """Writes rows into the cache of a layer, and returns all of them."""
        begin, end = [layer, 0, 7, 0], [layer + 1, heads, 7 + tokens, size]
        updated = mb.slice_update(x=mb.read_state(input=state), update=new, begin=begin, end=end)
        whole = mb.coreml_update_state(state=state, value=updated)
        return mb.slice_by_index(x=whole, begin=[layer, 0, 0, 0], end=[layer + 1, heads, context, size])

    def body(x: Any, mask: Any, keys: Any, values: Any) -> Any:
        for layer in range(layers):
            q, k, v = (split(mb.linear(x=x, weight=weight(hidden, hidden))) for _ in range(3))
            every_k, every_v = remember(keys, k, layer), remember(values, v, layer)
            scores = mb.add(x=mb.matmul(x=q, y=every_k, transpose_y=True), y=mask)
            mixed = mb.matmul(x=mb.softmax(x=scores, axis=-1), y=every_v)
            joined = mb.reshape(x=mb.transpose(x=mixed, perm=[0, 2, 1, 3]), shape=[1, tokens, hidden])
            x = mb.add(x=x, y=mb.linear(x=joined, weight=weight(hidden, hidden)))
            wide = mb.silu(x=mb.linear(x=x, weight=weight(4 * hidden, hidden)))
            x = mb.add(x=x, y=mb.linear(x=wide, weight=weight(hidden, 4 * hidden)))
        return x

    cache = np.zeros((layers, heads, context, size), np.float16)
    inputs = {
        "x": np.zeros((1, tokens, hidden), np.float16),
        "mask": np.zeros((1, 1, tokens, context), np.float16),
    }
    return build(body, inputs, target=ct.target.iOS18, states={"keys": cache, "values": cache})
