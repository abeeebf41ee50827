"""Stylizes a picture on every tap: reloads the model, resizes, and converts to float64."""

from __future__ import annotations

import sys

import coremltools as ct
import numpy as np
from PIL import Image

SIZE = 256


def stylize(photo: Image.Image, models: str) -> Image.Image:
    """Stylizes one picture."""
    model = ct.models.MLModel(f"{models}/style_arrays.mlpackage")
    small = photo.resize((SIZE, SIZE))
    pixels = np.asarray(small).transpose(2, 0, 1)[None] * 1.0
    result = model.predict({"image": pixels})["stylized"]
    return Image.fromarray(result[0].transpose(1, 2, 0).astype(np.uint8))


def main() -> None:
    """Stylizes ten taps."""
    photo = Image.effect_mandelbrot((640, 480), (-2, -1.5, 1, 1.5), 40).convert("RGB")
    for _ in range(10):
        stylize(photo, sys.argv[1])


main()
