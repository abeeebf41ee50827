"""Compiles on the first prediction, while the user waits."""

import sys

import numpy as np

import coremlscope

x = np.ones((1, 8), np.float32)
model = coremlscope.open(f"{sys.argv[1]}/deep.mlpackage")
for _ in range(12):
    model.predict({"x": x})  # mistake: slow-first-prediction
model.close()
