"""Compiled models that this package wrote: a `.mlmodelc` folder around the model that it was made from.

The folder can be moved and copied. The marker file in it names the model inside, relative to the folder:

    {"format": "coremlscope.compiled", "version": 1, "model": "source/model.mlpackage"}

Everything else in the folder is derived from that model, and may be absent.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from coremlscope.errors import CorruptModelError, UnsupportedModelError
from coremlscope.formats.mlmodel import is_inside

__all__ = ["MARKER", "is_own_compiled", "locate_source", "write_marker"]

MARKER = "coremlscope.json"

_FORMAT = "coremlscope.compiled"
_VERSION = 1
_INCOMPLETE = "compile the model again"


def is_own_compiled(path: Path) -> bool:
    """True for a folder that holds the marker."""
    return (path / MARKER).is_file()


def write_marker(folder: Path, model: PurePosixPath) -> None:
    """Marks a folder as a compiled model.

    Args:
        folder: The compiled model.
        model: Path of the model that it was made from, relative to `folder`.
    """
    content = {"format": _FORMAT, "version": _VERSION, "model": str(model)}
    (folder / MARKER).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def locate_source(folder: Path) -> Path:
    """The model inside of a compiled model.

    Raises:
        CorruptModelError: The marker is damaged, points outside of the folder, or the model is gone.
        UnsupportedModelError: The folder was written by a later version.
    """
    try:
        content = json.loads((folder / MARKER).read_bytes())
        if content["format"] != _FORMAT:
            raise ValueError("format")
        version, model = int(content["version"]), PurePosixPath(content["model"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CorruptModelError(f"the marker {MARKER} of {folder} is damaged", _INCOMPLETE) from None
    if version > _VERSION:
        raise UnsupportedModelError(
            f"{folder} has version {version} of the folder's layout, this program knows up to {_VERSION}",
            "update coremlscope, or compile the model again",
        )
    source = folder / model
    if not is_inside(model) or folder.resolve() not in source.resolve().parents:
        raise CorruptModelError(f"the marker {MARKER} of {folder} points outside of it", _INCOMPLETE)
    if not source.exists():
        raise CorruptModelError(f"{folder} has lost the model {model}", _INCOMPLETE)
    return source
