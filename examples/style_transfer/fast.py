"""Stylizes a picture on every tap: one load, a picture of the right size, images in and out."""

from __future__ import annotations

import sys

import coremltools as ct
from PIL import Image

SIZE = 256


def main() -> None:
    """Stylizes ten taps."""
    model = ct.models.MLModel(f"{sys.argv[1]}/style_images.mlpackage")
    # A camera delivers this size; here the picture is drawn in it.
    photo = Image.effect_mandelbrot((SIZE, SIZE), (-2, -1.5, 1, 1.5), 40).convert("RGB")
    for _ in range(10):
        model.predict({"image": photo})


main()
