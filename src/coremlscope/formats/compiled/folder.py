"""Reading of the folders that Apple's compiler writes. The files in a folder decide on its reader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from coremlscope import ir
from coremlscope.errors import NotAModelError
from coremlscope.formats.compiled.coremldata import COREMLDATA, read_compiled_data
from coremlscope.formats.compiled.interface import find_interface
from coremlscope.formats.compiled.ml_program import read_ml_program
from coremlscope.formats.compiled.neural_network import read_neural_network
from coremlscope.formats.mlmodel import read_spec, resolve_weight_name
from coremlscope.formats.weights import WeightStorage

__all__ = ["ESPRESSO_FILES", "PROGRAM_TEXT", "read_compiled"]

PROGRAM_TEXT = "model.mil"
ESPRESSO_FILES = ("model.espresso.net", "model.espresso.shape", "model.espresso.weights")


def read_compiled(folder: Path, weights_dir: Path | None = None) -> ir.Model:
    """Reads a folder of Apple's compiler.

    Args:
        folder: The compiled model.
        weights_dir: A folder with the weight files, instead of the model's own.

    Raises:
        NotAModelError: The folder holds no file of a compiled model.
        CorruptModelError: The model is damaged.
        UnsupportedModelError: The type of model cannot be read.
    """
    if (folder / PROGRAM_TEXT).exists():
        model = read_ml_program(folder, weights_dir)
    elif any((folder / name).exists() for name in ESPRESSO_FILES):
        model = read_neural_network(folder, weights_dir)
    else:
        model = _read_other(folder)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return replace(model, source=folder, container="mlmodelc", size_bytes=size)


def _read_other(folder: Path) -> ir.Model:
    """Reads a model of another type, of which only `coremldata.bin` or `metadata.json` is known."""
    data = read_compiled_data(folder / COREMLDATA) if (folder / COREMLDATA).is_file() else None
    if data is not None and data.spec is not None:
        return read_spec(data.spec, lambda name: WeightStorage(name, folder / resolve_weight_name(name)))
    interface = find_interface(folder)
    if interface is None:
        raise NotAModelError(
            f"the folder {folder} is not a compiled model: it has no {PROGRAM_TEXT}, {ESPRESSO_FILES[0]} or "
            f"{COREMLDATA}",
            "the folder is incomplete; copy or download the whole folder again",
        )
    return ir.Model(
        spec_version=interface.spec_version,
        description=interface.description,
        content=ir.Opaque(interface.kind),
        metadata=interface.metadata,
        is_updatable=interface.is_updatable,
    )
