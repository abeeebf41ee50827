"""Small language models: decoders with a cache of keys and values in states, or in inputs and outputs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import get_new_symbol, types

from coremlscope.formats import container
from coremlscope.model import ir
from tests.support.programs import build

__all__ = ["ROOM", "decoder", "flexible_decoder", "growing_decoder", "save_flexible_decoder"]

#: Tokens that the cache of the flexible decoder has room for.
ROOM = 64
_HEADS, _SIZE, _LAYERS, _WORDS = 2, 8, 2, 50


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


def _weight(*shape: int) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) / 8).astype(np.float16)


def _attend(x: Any, keys: Any, values: Any, mask: Any) -> Any:
    """Attention of the projection of some tokens to keys and values, and a residual."""
    hidden = _HEADS * _SIZE
    q = _heads(mb.linear(x=x, weight=_weight(hidden, hidden)))
    scores = mb.matmul(x=q, y=keys, transpose_y=True)
    if mask is not None:
        scores = mb.add(x=scores, y=mask)
    mixed = mb.matmul(x=mb.softmax(x=scores, axis=-1), y=values)
    joined = mb.reshape(x=mb.transpose(x=mixed, perm=[0, 2, 1, 3]), shape=[1, -1, hidden])
    return mb.add(x=x, y=mb.linear(x=joined, weight=_weight(hidden, hidden)))


def _heads(x: Any) -> Any:
    return mb.transpose(x=mb.reshape(x=x, shape=[1, -1, _HEADS, _SIZE]), perm=[0, 2, 1, 3])


def _embed(ids: Any) -> Any:
    return mb.gather(x=_weight(_WORDS, _HEADS * _SIZE), indices=ids, axis=0)


def save_flexible_decoder(path: Path, lengths: Any = None) -> None:
    """Writes a decoder as Apple's articles convert them: ids and a mask of open shapes, caches in states.

    The part of the caches that is written and read follows from the shape of the mask.

    Args:
        path: The package.
        lengths: The shapes of the ids and of the mask, in coremltools' terms; None for ranges.
    """
    tokens, attended = get_new_symbol(), get_new_symbol()
    cache = (_LAYERS, _HEADS, ROOM, _SIZE)
    specs = [
        mb.TensorSpec(shape=(1, tokens), dtype=types.int32),
        mb.TensorSpec(shape=(1, 1, tokens, attended), dtype=types.fp16),
        mb.StateTensorSpec(shape=cache, dtype=types.fp16),
        mb.StateTensorSpec(shape=cache, dtype=types.fp16),
    ]

    def remember(state: Any, new: Any, layer: int, begin: Any, end: Any) -> Any:
        first = mb.concat(values=[[layer, 0], begin, [0]], axis=0)
        last = mb.concat(values=[[layer + 1, _HEADS], end, [_SIZE]], axis=0)
        written = mb.slice_update(x=mb.read_state(input=state), update=new, begin=first, end=last)
        whole = mb.coreml_update_state(state=state, value=written)
        return mb.slice_by_index(x=whole, begin=[layer, 0, 0, 0], end=last)

    @mb.program(input_specs=specs, opset_version=ct.target.iOS18)
    def program(ids: Any, mask: Any, keys: Any, values: Any) -> Any:
        end = mb.slice_by_size(x=mb.shape(x=mask), begin=[3], size=[1])
        begin = mb.sub(x=end, y=mb.slice_by_size(x=mb.shape(x=ids), begin=[1], size=[1]))
        x = _embed(ids)
        for layer in range(_LAYERS):
            new = [_heads(mb.linear(x=x, weight=_weight(16, 16))) for _ in range(2)]
            both = [remember(s, n, layer, begin, end) for s, n in zip((keys, values), new, strict=True)]
            x = _attend(x, *both, mask)
        return mb.linear(x=x, weight=_weight(_WORDS, 16))

    ids, mask = lengths or (
        (1, ct.RangeDim(1, ROOM, default=1)),
        (1, 1, ct.RangeDim(1, ROOM, default=1), ct.RangeDim(1, ROOM, default=1)),
    )
    converted = ct.convert(
        program,
        inputs=[
            ct.TensorType(name="ids", shape=ids, dtype=np.int32),
            ct.TensorType(name="mask", shape=mask, dtype=np.float16),
        ],
        minimum_deployment_target=ct.target.iOS18,
        skip_model_load=True,
    )
    converted.save(str(path))


def flexible_decoder(lengths: Any = None) -> ir.Model:
    """The decoder of `save_flexible_decoder`."""
    path = Path(tempfile.mkdtemp()) / "decoder.mlpackage"
    save_flexible_decoder(path, lengths)
    return container.read(path)


def growing_decoder() -> ir.Model:
    """A decoder whose caches are inputs, and outputs with one row more for each token."""
    tokens, past = get_new_symbol(), get_new_symbol()
    cache = (1, _HEADS, past, _SIZE)
    names = [f"{what}{layer}" for layer in range(_LAYERS) for what in ("keys", "values")]
    specs = [
        mb.TensorSpec(shape=(1, tokens), dtype=types.int32),
        *(mb.TensorSpec(shape=cache, dtype=types.fp16) for _ in names),
    ]

    @mb.program(input_specs=specs, opset_version=ct.target.iOS17)
    def program(ids: Any, keys0: Any, values0: Any, keys1: Any, values1: Any) -> Any:
        x, extended = _embed(ids), []
        for pair in ((keys0, values0), (keys1, values1)):
            new = [_heads(mb.linear(x=x, weight=_weight(16, 16))) for _ in range(2)]
            both = [mb.concat(values=[old, row], axis=2) for old, row in zip(pair, new, strict=True)]
            x = _attend(x, *both, None)
            extended += both
        return (mb.linear(x=x, weight=_weight(_WORDS, 16)), *extended)

    shape = (1, _HEADS, ct.RangeDim(1, 256, default=1), _SIZE)
    converted = ct.convert(
        program,
        inputs=[
            ct.TensorType(name="ids", shape=(1, ct.RangeDim(1, 32, default=1)), dtype=np.int32),
            *(ct.TensorType(name=name, shape=shape, dtype=np.float16) for name in names),
        ],
        minimum_deployment_target=ct.target.iOS17,
        skip_model_load=True,
    )
    return container.read(converted.get_spec().SerializeToString())
