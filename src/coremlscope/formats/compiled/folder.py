"""Reading of the folders that Apple's compiler writes. The files in a folder decide on its reader."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from coremlscope.base.errors import CorruptModelError, NotAModelError
from coremlscope.formats.compiled.coremldata import read_compiled_data
from coremlscope.formats.compiled.interface import CompiledInterface, find_interface
from coremlscope.formats.compiled.marker import COREMLDATA, ESPRESSO_FILES, PROGRAM_TEXT
from coremlscope.formats.compiled.metadata import METADATA
from coremlscope.formats.compiled.ml_program import read_ml_program
from coremlscope.formats.compiled.neural_network import NETWORKS, read_neural_network
from coremlscope.formats.external import compiled_model
from coremlscope.formats.mlmodel import read_spec, resolve_weight_name
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir

# Compiled pipelines: folders with a sub-folder for each model, `model0`, `model1`, ….
#
# `modelNames/coremldata.bin` has the names of the models, if their author named them: a 64-bit count, and
# each name with its length as a 64-bit number before it. (Inferred from published compiled models.)

FIRST_STAGE = "model0"
PIPELINES = ("pipeline", "pipelineClassifier", "pipelineRegressor")

_NAMES = "modelNames"
_MAX_NAMES_BYTES = 2**20
_LENGTH = struct.Struct("<Q")
_INCOMPLETE = "the folder is incomplete; copy or download the whole folder again"


def read_pipeline(
    folder: Path, interface: CompiledInterface, read_stage: Callable[[Path], ir.Model]
) -> ir.Model:
    """Reads a folder of a pipeline.

    Args:
        folder: The compiled model.
        interface: The interface of the pipeline.
        read_stage: Reads the folder of one of its models.

    Raises:
        CorruptModelError: The folder of a model is missing or damaged.
        UnsupportedModelError: A model cannot be read.
        OSError: A file cannot be read.
    """
    stages = list(itertools.takewhile(Path.is_dir, (folder / f"model{i}" for i in itertools.count())))
    if not stages or len(stages) < interface.stages:
        raise CorruptModelError(
            f"the compiled pipeline {folder} lacks the folder model{len(stages)}", _INCOMPLETE
        )
    if any(stage.is_symlink() for stage in stages):
        raise CorruptModelError(
            f"a model of the compiled pipeline {folder} is a link to another folder",
            "do not use this model unless you trust its author; export or download the model again",
        )
    names = _read_names(folder / _NAMES / COREMLDATA)
    models = tuple(map(read_stage, stages))
    files = {file.name: file for model in models for file in model.weight_files}
    return ir.Model(
        spec_version=interface.spec_version,
        description=interface.description,
        content=ir.Pipeline(interface.kind, tuple([*names, *[""] * len(models)][: len(models)]), models),
        metadata=interface.metadata,
        is_updatable=interface.is_updatable,
        weight_files=tuple(files.values()),
    )


def _read_names(path: Path) -> list[str]:
    """Reads the names of the models; an empty list if the file is missing."""
    if not path.is_file():
        return []
    if path.stat().st_size > _MAX_NAMES_BYTES:
        raise CorruptModelError(f"{path} is larger than 1 MB", _INCOMPLETE)
    data, names = path.read_bytes(), []
    try:
        (count,), position = _LENGTH.unpack_from(data), _LENGTH.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(data, position)
            position += _LENGTH.size + length
            if position > len(data):
                raise ValueError("the last name is truncated")
            names.append(data[position - length : position].decode())
    except (struct.error, ValueError):
        raise CorruptModelError(f"{path} is damaged", _INCOMPLETE) from None
    return names


#: Limit of pipelines inside pipelines.
_MAX_DEPTH = 8
_INTERFACE_FILES = (COREMLDATA, METADATA)
#: The file or folder without which a model of a type has no content.
_CONTENT = {
    "mlProgram": PROGRAM_TEXT,
    **dict.fromkeys(NETWORKS, ESPRESSO_FILES[0]),
    **dict.fromkeys(PIPELINES, FIRST_STAGE),
}


def read_compiled(folder: Path) -> ir.Model:
    """Reads a folder of Apple's compiler.

    Args:
        folder: The compiled model.

    Raises:
        NotAModelError: The folder holds no file of a compiled model.
        CorruptModelError: The model is damaged.
        UnsupportedModelError: The type of model cannot be read.
    """
    model = _read_folder(folder, None, 0)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return replace(model, source=folder, container="mlmodelc", size_bytes=size)


def _read_folder(folder: Path, pipeline: Path | None, depth: int) -> ir.Model:
    """Reads a compiled model, or a model of a compiled pipeline."""
    if (folder / PROGRAM_TEXT).exists():
        return read_ml_program(folder, pipeline)
    if any((folder / name).exists() for name in ESPRESSO_FILES):
        return read_neural_network(folder)
    if (folder / FIRST_STAGE).is_dir():
        return _read_pipeline(folder, pipeline or folder, depth)
    return _read_other(folder)


def _read_pipeline(folder: Path, pipeline: Path, depth: int) -> ir.Model:
    interface = find_interface(folder)
    if interface is None or interface.kind not in PIPELINES:
        raise CorruptModelError(
            f"the folder {folder} contains models, but no {COREMLDATA} of a pipeline",
            f"copy or download the whole folder again, or use one of the models in it, such as "
            f"{folder / FIRST_STAGE}",
        )
    if depth == _MAX_DEPTH:
        raise CorruptModelError(
            f"the compiled model {pipeline} has more than {_MAX_DEPTH} pipelines inside each other",
            "the folder is damaged or malicious; copy or download it again",
        )
    return read_pipeline(folder, interface, lambda stage: _read_folder(stage, folder, depth + 1))


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
    missing = _CONTENT.get(interface.kind)
    if missing is not None:
        raise CorruptModelError(
            f"{folder} is a compiled {interface.kind}, but {missing} is missing",
            "the folder is incomplete; copy or download the whole folder again",
        )
    others = (file for file in folder.rglob("*") if file.is_file() and file.name not in _INTERFACE_FILES)
    size = interface.data_bytes + sum(file.stat().st_size for file in others)
    return ir.Model(
        spec_version=interface.spec_version,
        description=interface.description,
        content=compiled_model(interface.kind, size, interface.class_labels),
        metadata=interface.metadata,
        is_updatable=interface.is_updatable,
    )
