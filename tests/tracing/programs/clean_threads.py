"""Four threads share one model."""

import sys
from concurrent.futures import ThreadPoolExecutor

import coremltools as ct
import numpy as np

model = ct.models.MLModel(f"{sys.argv[1]}/net.mlpackage")


def answer(seed):
    x = np.random.default_rng(seed).random((1, 4, 16, 16), np.float32)
    return model.predict({"x": x})


with ThreadPoolExecutor(4) as pool:
    list(pool.map(answer, range(40)))
