"""Compiled ML Programs: folders with `model.mil`."""

from __future__ import annotations

from pathlib import Path

from coremlscope import ir
from coremlscope.errors import UnsupportedModelError

__all__ = ["read_ml_program"]


def read_ml_program(folder: Path, weights_dir: Path | None) -> ir.Model:
    """Reads a folder with `model.mil`.

    Args:
        folder: The compiled model.
        weights_dir: A folder with the weight files, instead of the model's own.

    Raises:
        CorruptModelError: The model is damaged.
        UnsupportedModelError: The model cannot be read.
    """
    raise UnsupportedModelError(
        f"{folder} is a compiled ML Program, which cannot be read",
        "use the .mlpackage or .mlmodel from which it was compiled",
    )
