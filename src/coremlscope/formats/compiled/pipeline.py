"""Compiled pipelines: folders with a sub-folder for each model, `model0`, `model1`, ….

`modelNames/coremldata.bin` has the names of the models, if their author named them: a 64-bit count, and each
name with its length as a 64-bit number before it. (Inferred from published compiled models.)
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

from coremlscope.base.errors import CorruptModelError
from coremlscope.formats.compiled.coremldata import COREMLDATA
from coremlscope.formats.compiled.interface import CompiledInterface
from coremlscope.model import ir

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
