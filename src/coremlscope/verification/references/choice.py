"""Opens references of every kind: a line a kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from coremlscope.base.errors import UsageError
from coremlscope.model.ir import Model
from coremlscope.verification.references.arrays import CallReference, SavedReference, read_arrays
from coremlscope.verification.references.contract import Reference
from coremlscope.verification.references.core_ml_model import CoreMLReference
from coremlscope.verification.references.onnx_model import OnnxReference
from coremlscope.verification.references.torch_program import ExportedReference, ModuleReference, is_module


def _saved(path: Path) -> Reference:
    return SavedReference(read_arrays(path), path.name)


#: Opener of the files of each suffix.
SUFFIXES: tuple[tuple[str, Callable[[Path], Reference]], ...] = (
    (".onnx", OnnxReference),
    (".pt2", ExportedReference),
    (".npz", _saved),
    (".mlpackage", CoreMLReference),
    (".mlmodelc", CoreMLReference),
    (".mlmodel", CoreMLReference),
)


def open_reference(source: object, function: str | None = None) -> Reference:
    """Opens a reference.

    Args:
        source: A path; a model; a mapping from names to arrays; a module or an exported program of PyTorch;
            or a function that takes a dictionary of arrays and returns outputs.
        function: The function of another Core ML model, if it has one of that name.

    Raises:
        UsageError: Its kind is unknown, or the file cannot be read.
        ModelError: A Core ML model cannot be read.
        MissingDependencyError: torch is not installed.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        opener = next((opens for suffix, opens in SUFFIXES if path.suffix.lower() == suffix), None)
        if opener is None:
            known = ", ".join(suffix for suffix, _ in SUFFIXES)
            raise UsageError(
                f"{path} is not a reference of a known kind", f"give a file that ends in one of {known}"
            )
        return CoreMLReference(path, function) if opener is CoreMLReference else opener(path)
    if isinstance(source, Model):
        return CoreMLReference(source, function)
    if isinstance(source, Mapping):
        return SavedReference(source)
    if is_module(source):
        return ModuleReference(source)
    if type(source).__name__ == "ExportedProgram":
        return ExportedReference(source)
    if callable(source):
        return CallReference(source)
    raise UsageError(
        f"a {type(source).__name__} is not a reference", "give a path, a function, a module or arrays"
    )


def given_inputs(reference: Reference, names: Collection[str]) -> dict[str, Any]:
    """Returns the inputs that were saved with a reference.

    Args:
        reference: The reference.
        names: The names of the inputs of the model.
    """
    if not isinstance(reference, SavedReference):
        return {}
    return {name: array for name, array in reference.arrays.items() if name in names}
