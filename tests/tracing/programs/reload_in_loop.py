"""Loads the model again for every tap."""

import sys

import coremltools as ct
import numpy as np

x = np.ones((1, 4, 16, 16), np.float32)
for _ in range(4):
    model = ct.models.MLModel(f"{sys.argv[1]}/net.mlpackage")  # mistake: load-in-loop
    for _ in range(8):
        model.predict({"x": x})
