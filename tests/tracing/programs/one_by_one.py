"""Predicts for one part of an array after another, which could be one batch."""

import sys

import coremltools as ct
import numpy as np

model = ct.models.MLModel(f"{sys.argv[1]}/net.mlpackage")
crops = np.ones((24, 4, 16, 16), np.float32)
for index in range(len(crops)):
    model.predict({"x": crops[index : index + 1]})  # mistake: serial-predictions
