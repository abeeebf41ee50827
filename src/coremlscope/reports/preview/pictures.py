"""Pictures of arrays: masks by class, maps of numbers in colours."""

from __future__ import annotations

import base64
import colorsys
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from coremlscope.model.ir import Array

#: Sides of pictures in pixels at most; larger ones are shrunk.
_LARGEST = 720
#: Colours from low to high that people with any colour vision can order (viridis, at equal distances).
_ANCHORS = (
    (68, 1, 84),
    (72, 40, 120),
    (62, 74, 137),
    (49, 104, 142),
    (38, 130, 142),
    (31, 158, 137),
    (53, 183, 121),
    (109, 205, 89),
    (180, 222, 44),
    (253, 231, 37),
)


def encode_picture(image: Any) -> str:
    """Returns the address of the data of a Pillow image, as PNG."""
    file = io.BytesIO()
    image.save(file, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def shrink(image: Any) -> Any:
    """Returns a Pillow image of a size that a page shows."""
    if image.mode == "F":
        image = color_map(np.asarray(image))
    if image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert("RGB")
    if max(image.size) > _LARGEST:
        image = image.copy()
        image.thumbnail((_LARGEST, _LARGEST))
    return image


def color_map(values: Array) -> Any:
    """Returns a matrix as a Pillow image: low numbers dark, high ones bright; what is not finite is clear."""
    from PIL import Image

    numbers = np.asarray(values, dtype=np.float64)
    is_finite = np.isfinite(numbers)
    low, high = _range(numbers[is_finite])
    scaled = np.where(is_finite, (numbers - low) / ((high - low) or 1.0), 0.0).clip(0, 1)
    places = np.linspace(0, 1, len(_ANCHORS))
    channels = [np.interp(scaled, places, [color[i] for color in _ANCHORS]) for i in range(3)]
    pixels = np.stack([*channels, np.where(is_finite, 255, 0)], axis=-1).round().astype(np.uint8)
    return shrink(Image.fromarray(pixels))


def _range(numbers: Array) -> tuple[float, float]:
    return (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)


def class_colors(count: int, given: Sequence[str] = ()) -> list[str]:
    """Returns a colour for each class: those of the file, then hues that differ as far as they can."""
    colors = []
    for index in range(count):
        text = str(given[index]).lstrip("#") if index < len(given) else ""
        if len(text) == 6 and all(c in "0123456789abcdefABCDEF" for c in text):
            colors.append(f"#{text.lower()}")
            continue
        red, green, blue = colorsys.hls_to_rgb((index * 0.618034) % 1.0, 0.45 + 0.12 * (index % 3), 0.75)
        colors.append(f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}")
    return colors


def color_mask(classes: Array, colors: dict[int, str], clear: int | None) -> Any:
    """Returns a matrix of classes as a Pillow image.

    Args:
        classes: The class of each pixel.
        colors: The colour of each class that occurs.
        clear: The class that is not drawn, the background; None for none.
    """
    from PIL import Image

    pixels = np.zeros((*classes.shape, 4), dtype=np.uint8)
    for number, color in colors.items():
        if number != clear:
            pixels[classes == number] = (*bytes.fromhex(color[1:]), 255)
    image = Image.fromarray(pixels)
    if max(image.size) > _LARGEST:
        scale = _LARGEST / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.NEAREST)
    return image
