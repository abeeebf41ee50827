"""Conversion between Pillow images and tensors, and resizing as in Apple's Vision framework.

Pillow is imported on first use.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from coremlscope.base.arrays import np
from coremlscope.base.errors import InputError
from coremlscope.model.ir import Array, ImageFeature

if TYPE_CHECKING:
    from PIL.Image import Image

Resize = Literal["scale-fill", "scale-fit", "center-crop"]
RESIZES: tuple[Resize, ...] = get_args(Resize)
#: How files of images are resized, if nothing else is asked for.
DEFAULT_RESIZE: Resize = "center-crop"

_MODES = {"RGB": "RGB", "BGR": "RGB", "GRAYSCALE": "L", "GRAYSCALE_FLOAT16": "F"}


def is_image(value: object) -> bool:
    """True for Pillow images. Does not import Pillow."""
    return any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in type(value).__mro__)


def open_image(path: Path) -> Image:
    """Reads an image file and applies its EXIF orientation.

    Raises:
        InputError: The file is not an image that Pillow can read, or it is damaged.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            image.load()
            return ImageOps.exif_transpose(image)
    except Image.DecompressionBombError as error:
        size = re.search(r"\((\d+) pixels", str(error))
        pixels = f"{int(size[1]) / 1e6:,.0f} million" if size else "too many"
        raise InputError(
            f"{path} has {pixels} pixels, more than are read of one picture", "make the picture smaller"
        ) from None
    except (OSError, ValueError, SyntaxError) as error:
        raise InputError(
            f"{path} cannot be read as an image: {_reason(error)}", "use a PNG, JPEG or other image file"
        ) from None


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return "it is not an image, or its format is not supported" if "cannot identify" in text else text


def resize_image(image: Image, width: int, height: int, how: Resize) -> Image:
    """Resizes an image.

    Args:
        image: The image.
        width: New width in pixels.
        height: New height in pixels.
        how: `scale-fill` stretches both sides; `scale-fit` keeps the aspect ratio and pads with black;
            `center-crop` keeps the aspect ratio and crops the longer side.
    """
    from PIL import Image

    if image.size == (width, height):
        return image
    bilinear = Image.Resampling.BILINEAR
    if how == "scale-fill":
        return image.resize((width, height), bilinear)
    ratios = width / image.width, height / image.height
    if how == "scale-fit":
        scale = min(ratios)
        inner = image.resize(
            (max(1, round(image.width * scale)), max(1, round(image.height * scale))), bilinear
        )
        canvas = Image.new(inner.mode, (width, height))
        canvas.paste(inner, ((width - inner.width) // 2, (height - inner.height) // 2))
        return canvas
    scale = max(ratios)
    wide, high = width / scale, height / scale
    left, top = (image.width - wide) / 2, (image.height - high) / 2
    return image.resize((width, height), bilinear, box=(left, top, left + wide, top + high))


def _in_mode(image: Image, mode: str) -> Image:
    if image.mode == mode:
        return image
    if image.mode.startswith("I;16"):
        from PIL import Image

        # Pillow would clip 16-bit grey to 255 instead of scaling it.
        image = Image.fromarray((np.asarray(image) / 257.0).round().astype(np.uint8))
    if image.mode in ("P", "LA", "PA") and mode == "RGB":
        image = image.convert("RGBA")
    return image.convert(mode)


def image_of_feature(image: Image, feature: ImageFeature) -> Image:
    """Converts an image to the mode that coremltools expects of a feature: RGB, L, or F for 16-bit grey."""
    return _in_mode(image, _MODES[feature.color_space])


def from_image(image: Image, feature: ImageFeature) -> Array:
    """Converts an image to a tensor: float32 `[1, planes, height, width]`, 8-bit pixels as 0 … 255.

    Colour planes are in the feature's order, RGB or BGR. Programs round pixels of half precision themselves.
    """
    pixels = np.asarray(_in_mode(image, _MODES[feature.color_space]), dtype=np.float32)
    if pixels.ndim == 2:
        return pixels[None, None]
    if feature.color_space == "BGR":
        pixels = pixels[..., ::-1]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]


def to_image(tensor: Array, feature: ImageFeature) -> Image:
    """Converts a tensor `[…, planes, height, width]` to an image of mode RGBA, L, or F for 16-bit grey."""
    from PIL import Image

    planes = np.asarray(tensor, dtype=np.float32)
    planes = planes.reshape(-1, *planes.shape[-2:])
    if feature.color_space == "GRAYSCALE_FLOAT16":
        return Image.fromarray(planes[0])
    pixels = np.nan_to_num(planes, nan=0.0).round().clip(0, 255).astype(np.uint8)
    if feature.color_space == "GRAYSCALE":
        return Image.fromarray(pixels[0])
    if feature.color_space == "BGR":
        pixels = pixels[::-1]
    opaque = np.full_like(pixels[0], 255)
    return Image.fromarray(np.stack([*pixels[:3], opaque], axis=-1))


def image_from_array(array: Array, name: str) -> Image:
    """Converts an array of pixels to an image.

    Args:
        array: Height × width, or with 3 or 4 channels as the last or first axis.
        name: The input's name, for the error message.

    Raises:
        InputError: The array has another layout.
    """
    from PIL import Image

    pixels: Any = array.reshape(array.shape[1:]) if array.ndim == 4 and array.shape[0] == 1 else array
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3, 4) and pixels.shape[-1] not in (1, 3, 4):
        pixels = pixels.transpose(1, 2, 0)
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    is_picture = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[-1] in (3, 4))
    if not is_picture or pixels.dtype.kind not in "uif":
        raise InputError(
            f"cannot convert a {array.dtype} array of shape {list(array.shape)} to the image {name!r}",
            "use an array of height × width × 3 or height × width with values 0 … 255, or an image file",
        )
    if pixels.ndim == 2 and pixels.dtype.kind == "f":
        return Image.fromarray(pixels.astype(np.float32))
    return Image.fromarray(np.ascontiguousarray(pixels.round().clip(0, 255).astype(np.uint8)))
