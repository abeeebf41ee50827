"""Resizes every picture before the prediction."""

import sys

import coremltools as ct
from PIL import Image

model = ct.models.MLModel(f"{sys.argv[1]}/image.mlpackage")
photo = Image.new("RGB", (640, 480), "teal")
for _ in range(12):
    small = photo.resize((32, 32))  # mistake: image-converted
    model.predict({"image": small})
