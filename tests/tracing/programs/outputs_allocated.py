"""Gets a large result in new memory from every prediction."""

import sys

import coremltools as ct
import numpy as np

model = ct.models.MLModel(f"{sys.argv[1]}/large.mlpackage")
x = np.ones((1, 1, 8, 8), np.float16)
for _ in range(16):
    model.predict({"x": x})  # mistake: outputs-allocated
