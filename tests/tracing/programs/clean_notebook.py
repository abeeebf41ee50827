"""Cells of a notebook: a model, an experiment, another one."""

import sys

cells = [
    "import coremltools as ct, numpy as np",
    f"model = ct.models.MLModel({sys.argv[1]!r} + '/net.mlpackage')",
    "x = np.random.rand(1, 4, 16, 16).astype(np.float32)",
    "y = model.predict({'x': x})",
    "for _ in range(10):\n    model.predict({'x': np.random.rand(1, 4, 16, 16).astype(np.float32)})",
    "half = ct.models.MLModel(model_path := " + repr(sys.argv[1] + "/half.mlpackage") + ")",
    "z = half.predict({'x': np.zeros((1, 4, 16, 16), np.float16)})",
]
names = {"__name__": "__main__"}
for number, cell in enumerate(cells):
    exec(compile(cell, f"<cell {number}>", "exec"), names)
