"""Gives float32 arrays to a model that takes float16."""

import sys

import coremltools as ct
import numpy as np

model = ct.models.MLModel(f"{sys.argv[1]}/half.mlpackage")
for index in range(20):
    x = np.full((1, 4, 16, 16), index, np.float32)
    model.predict({"x": x})  # mistake: wide-inputs
