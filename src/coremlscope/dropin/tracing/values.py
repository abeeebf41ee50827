"""Values of recorded programs in a few words, and what their memory looks like."""

from __future__ import annotations

import functools
import sys
from typing import Any


def is_array(value: Any) -> bool:
    """Returns True if a value is an array of NumPy; a program that has not imported NumPy has none."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def bytes_of(value: Any) -> int:
    """The size of an array or image in bytes; 0 for other values."""
    size = getattr(value, "nbytes", None)
    if size is None and hasattr(value, "getbands"):
        size = value.width * value.height * len(value.getbands())
    return int(size or 0)


def describe_value(value: Any) -> str:
    """Describes a value in a few words: `float32[1,3,224,224]`, `image RGB 640×480`."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        flags = getattr(value, "flags", None)
        strides = None if getattr(flags, "c_contiguous", True) else value.strides
        return describe_array(dtype, tuple(shape), strides)
    if hasattr(value, "getbands"):
        return f"image {value.mode} {value.width}×{value.height}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


@functools.lru_cache(maxsize=4096)
def describe_array(dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> str:
    """Describes an array; `strides` are in bytes, and None for contiguous arrays."""
    text = f"{str(dtype).removeprefix('torch.')}[{','.join(map(str, shape))}]"
    return text if strides is None else f"{text} with strides of {','.join(map(str, strides))} bytes"
