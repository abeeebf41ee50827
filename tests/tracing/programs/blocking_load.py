"""Loads a model inside a coroutine, so that all other tasks wait."""

import asyncio
import sys

import coremltools as ct
import numpy as np


async def answer(x):
    return await asyncio.to_thread(model.predict, {"x": x})


async def main():
    global model
    model = ct.models.MLModel(f"{sys.argv[1]}/net.mlpackage")  # mistake: load-on-main-thread
    x = np.ones((1, 4, 16, 16), np.float32)
    await asyncio.gather(*(answer(x) for _ in range(20)))


asyncio.run(main())
