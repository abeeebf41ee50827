"""Gives height × width × channels data to a model that takes channels first."""

import sys

import coremltools as ct
import numpy as np

model = ct.models.MLModel(f"{sys.argv[1]}/net.mlpackage")
frame = np.ones((16, 16, 4), np.float32)
for _ in range(12):
    model.predict({"x": frame.transpose(2, 0, 1)[None]})  # mistake: input-not-contiguous
