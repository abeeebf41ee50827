"""A text encoder with a mistake, as a Core ML model with synthetic weights.

python network.py TextEncoder.mlpackage            running sums leave the Neural Engine in every layer
python network.py --mended Mended.mlpackage        the same sums, as products with a triangular matrix

It needs coremltools.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import types

#: Takes features (1, length, width), and returns the sum of each token and those before it, by the length.
Sums = Callable[[Any, int], Any]


def running_sums(x: Any, length: int) -> Any:
    """The mistake: no Neural Engine has a running sum."""
    return mb.mul(x=mb.cumsum(x=x, axis=1), y=np.float32(1 / length))


def products(x: Any, length: int) -> Any:
    """The same, as a product with a triangular matrix of ones."""
    ones = np.tril(np.ones((1, length, length), np.float32))
    return mb.matmul(x=ones / length, y=x)


def encoder(
    sums: Sums,
    *,
    words: int = 8_000,
    length: int = 256,
    width: int = 384,
    heads: int = 6,
    layers: int = 6,
) -> Any:
    """Converts a transformer encoder over tokens, with sums before its attention."""
    phases = itertools.count()

    def weights(*shape: int) -> np.ndarray:
        # A pattern that compresses well: the values do not matter here.
        pattern = np.sin(np.arange(4096) + next(phases))
        return (np.resize(pattern, shape) / np.sqrt(shape[-1])).astype(np.float32)

    def linear(x: Any, inputs: int, outputs: int) -> Any:
        return mb.linear(x=x, weight=weights(outputs, inputs))

    def normalised(x: Any) -> Any:
        gamma, beta = np.ones(width, np.float32), np.zeros(width, np.float32)
        return mb.layer_norm(x=x, axes=[-1], gamma=gamma, beta=beta)

    def split(x: Any) -> Any:
        parted = mb.reshape(x=x, shape=[1, length, heads, width // heads])
        return mb.transpose(x=parted, perm=[0, 2, 1, 3])

    def attention(x: Any) -> Any:
        q, k, v = (split(linear(x, width, width)) for _ in range(3))
        scores = mb.mul(x=mb.matmul(x=q, y=k, transpose_y=True), y=np.float32((width // heads) ** -0.5))
        mixed = mb.transpose(x=mb.matmul(x=mb.softmax(x=scores, axis=-1), y=v), perm=[0, 2, 1, 3])
        return linear(mb.reshape(x=mixed, shape=[1, length, width]), width, width)

    @mb.program(input_specs=[mb.TensorSpec((1, length), dtype=types.int32)], opset_version=ct.target.iOS17)
    def program(tokens: Any) -> Any:
        x = mb.gather(x=weights(words, width), indices=tokens, axis=0)
        for _ in range(layers):
            x = mb.add(x=x, y=linear(sums(normalised(x), length), width, width))
            x = mb.add(x=x, y=attention(normalised(x)))
            wide = mb.gelu(x=linear(normalised(x), width, 4 * width), mode="TANH_APPROXIMATION")
            x = mb.add(x=x, y=linear(wide, 4 * width, width))
        return mb.reduce_mean(x=normalised(x), axes=[1], name="embedding")

    return ct.convert(program, minimum_deployment_target=ct.target.iOS17, skip_model_load=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("--mended", action="store_true")
    options = parser.parse_args()
    encoder(products if options.mended else running_sums).save(options.package)
