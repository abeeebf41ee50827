"""Compiled models written by this package: a `.mlmodelc` folder that contains the source model.

The folder can be moved and copied. Its marker file contains the path of the source model, relative to the
folder:

    {"format": "coremlscope.compiled", "version": 1, "model": "source/model.mlpackage"}

Everything else in the folder is derived from the source model and optional.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.base.writing import write_draft
from coremlscope.formats.mlmodel import is_inside

MARKER = "coremlscope.json"

_FORMAT = "coremlscope.compiled"
_VERSION = 1
_INCOMPLETE = "compile the model again"


def is_own_compiled(path: Path) -> bool:
    """True for a folder with the marker."""
    return (path / MARKER).is_file()


def write_marker(folder: Path, model: PurePosixPath) -> None:
    """Marks a folder as a compiled model.

    Args:
        folder: The compiled model.
        model: Path of the source model, relative to `folder`.
    """
    content = {"format": _FORMAT, "version": _VERSION, "model": str(model)}
    write_draft(folder / MARKER, json.dumps(content, indent=2) + "\n")


def locate_source(folder: Path) -> Path:
    """Returns the path of a compiled model's source model.

    Raises:
        CorruptModelError: The marker is damaged or points outside the folder, or the source model is missing.
        UnsupportedModelError: The folder was written by a newer version.
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
            f"{folder} has layout version {version}, but only versions up to {_VERSION} are supported",
            "update coremlscope, or compile the model again",
        )
    source = folder / model
    if not is_inside(model) or folder.resolve() not in source.resolve().parents:
        raise CorruptModelError(f"the marker {MARKER} of {folder} points outside the folder", _INCOMPLETE)
    if not source.exists():
        raise CorruptModelError(f"the model {model} is missing in {folder}", _INCOMPLETE)
    return source
