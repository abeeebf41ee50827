"""Loads two models and uses one."""

import sys

import coremltools as ct
import numpy as np

net = ct.models.MLModel(f"{sys.argv[1]}/net.mlpackage")
spare = ct.models.MLModel(f"{sys.argv[1]}/half.mlpackage")  # mistake: model-unused
x = np.ones((1, 4, 16, 16), np.float32)
for _ in range(12):
    net.predict({"x": x})
