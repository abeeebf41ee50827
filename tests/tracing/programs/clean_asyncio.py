"""Loads before the loop runs, and predicts in threads."""

import asyncio
import sys

import coremltools as ct
import numpy as np

model = ct.models.MLModel(f"{sys.argv[1]}/net.mlpackage")


async def answer(seed):
    x = np.random.default_rng(seed).random((1, 4, 16, 16), np.float32)
    return await asyncio.to_thread(model.predict, {"x": x})


async def main():
    await asyncio.gather(*(answer(seed) for seed in range(40)))


asyncio.run(main())
