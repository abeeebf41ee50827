"""Two classes load the same model, each for itself."""

import sys

import coremltools as ct
import numpy as np

PATH = f"{sys.argv[1]}/net.mlpackage"


class Detector:
    def __init__(self):
        self.model = ct.models.MLModel(PATH)


class Tracker:
    def __init__(self):
        self.model = ct.models.MLModel(PATH)  # mistake: two-copies


detector, tracker = Detector(), Tracker()
x = np.ones((1, 4, 16, 16), np.float32)
for _ in range(8):
    detector.model.predict({"x": x})
    tracker.model.predict({"x": x})
