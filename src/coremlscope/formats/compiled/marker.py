"""Files by which a compiled model is known, and the marker of those that this package wrote.

Such a `.mlmodelc` folder contains the source model. It can be moved and copied. The marker contains the path
of the source model, relative to the folder:

    {"format": "coremlscope.compiled", "version": 1, "model": "source/model.mlpackage"}

Everything else in the folder is derived from the source model and optional.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.base.writing import write_draft
from coremlscope.formats.mlmodel import is_inside

COREMLDATA = "coremldata.bin"
PROGRAM_TEXT = "model.mil"
#: The ends of the names of a neural network's files: its layers, their shapes, and their weights.
NET, SHAPE, WEIGHTS = ".espresso.net", ".espresso.shape", ".espresso.weights"
ESPRESSO_FILES = tuple(f"model{suffix}" for suffix in (NET, SHAPE, WEIGHTS))
MARKER = "coremlscope.json"

_SUFFIX, _START = ".mil", b"program("
#: An attribute of operations in analytics.mil, in which Core ML writes plans, and where it is searched.
_OF_PLANS, _HEAD_BYTES = b"BackendSupport = ", 2**16

_FORMAT = "coremlscope.compiled"
_VERSION = 1
_INCOMPLETE = "compile the model again"


def is_own_compiled(path: Path) -> bool:
    """True for a folder with the marker."""
    return (path / MARKER).is_file()


def is_program_file(path: Path) -> bool:
    """True for a file with the text of a program, except for plans that Core ML wrote (analytics.mil)."""
    if path.suffix != _SUFFIX or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return head.lstrip().startswith(_START) and _OF_PLANS not in head


def is_espresso_file(path: Path) -> bool:
    """True for one of the three files of a compiled neural network."""
    return path.is_file() and path.name.endswith((NET, SHAPE, WEIGHTS))


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
