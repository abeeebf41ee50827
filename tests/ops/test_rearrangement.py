from __future__ import annotations

import numpy as np
from coremltools.converters.mil import Builder as mb

from coremlscope.ops.spec import Work
from tests.support.op_cases import check, works

X = np.arange(2 * 8 * 4 * 6, dtype=np.float32).reshape(2, 8, 4, 6)


def test_depth_and_space():
    n, c, h, w = X.shape
    blocks = X.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // 4, h * 2, w * 2)
    shuffled = X.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, h * 2, w * 2)
    cases = {
        "depth_to_space": (lambda x: mb.depth_to_space(x=x, block_size=2), blocks),
        "space_to_depth": (
            lambda x: mb.space_to_depth(x=mb.depth_to_space(x=x, block_size=2), block_size=2),
            X,
        ),
        "pixel_shuffle": (lambda x: mb.pixel_shuffle(x=x, upscale_factor=2), shuffled),
        "pixel_unshuffle": (
            lambda x: mb.pixel_unshuffle(
                x=mb.pixel_shuffle(x=x, upscale_factor=2), downscale_factor=np.uint32(2)
            ),
            X,
        ),
    }
    check(cases, {"x": X})


def test_space_and_batch():
    n, c = X.shape[:2]
    padded = np.pad(X, [(0, 0), (0, 0), (1, 1), (0, 3)])
    moved = padded.reshape(n, c, 3, 2, 3, 3).transpose(3, 5, 0, 1, 2, 4).reshape(n * 6, c, 3, 3)
    to_batch = {"block_shape": [2, 3], "paddings": [[1, 1], [0, 3]]}
    back = {"block_shape": [2, 3], "crops": [[1, 1], [0, 3]]}
    cases = {
        "space_to_batch": (lambda x: mb.space_to_batch(x=x, **to_batch), moved),
        "batch_to_space": (lambda x: mb.batch_to_space(x=mb.space_to_batch(x=x, **to_batch), **back), X),
        "not cropped": (
            lambda x: mb.batch_to_space(
                x=mb.space_to_batch(x=x, block_shape=[4, 1], paddings=[[0, 0], [0, 0]]),
                block_shape=[4, 1],
                crops=[[0, 0], [0, 0]],
            ),
            X,
        ),
    }
    check(cases, {"x": X})


def test_work():
    assert works(lambda x: mb.pixel_shuffle(x=x, upscale_factor=2), {"x": X})["pixel_shuffle"] == Work(
        flops=0, read_bytes=X.nbytes, weight_bytes=0, written_bytes=X.nbytes
    )
