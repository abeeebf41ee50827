"""The interface of an Apple-compiled model, from `coremldata.bin` or else from `metadata.json`."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import NotAModelError
from coremlscope.formats.compiled.coremldata import CompiledData, read_compiled_data
from coremlscope.formats.compiled.marker import COREMLDATA
from coremlscope.formats.compiled.metadata import METADATA, CompiledMetadata, read_metadata_file
from coremlscope.formats.description import read_description, read_metadata
from coremlscope.model import ir


class CompiledInterface(msgspec.Struct, frozen=True, kw_only=True):
    """The description in every compiled model.

    Attributes:
        kind: Apple's name of the model type: `mlProgram`, `neuralNetwork`, `textClassifier`, …
        spec_version: Core ML's specification version.
        description: The interfaces of the model's functions.
        metadata: The author's information.
        is_updatable: True if the model can be trained on a device.
        class_labels: The labels of a classifier, in order; empty if the files do not list them.
        stages: The number of models of a pipeline; 0 for other models.
        data_bytes: The number of bytes in `coremldata.bin` whose meaning is unknown.
    """

    kind: str
    spec_version: int
    description: ir.Description
    metadata: ir.Metadata
    is_updatable: bool = False
    class_labels: tuple[str, ...] | tuple[int, ...] = ()
    stages: int = 0
    data_bytes: int = 0


def find_interface(folder: Path, functions: tuple[str, ...] = ()) -> CompiledInterface | None:
    """Reads the interface of a compiled model.

    Args:
        folder: The compiled model.
        functions: Names of the program's functions; empty if the model is not a program.

    Returns:
        The interface, or None if the folder has neither of the two files.

    Raises:
        CorruptModelError: A file is damaged.
        NotAModelError: `coremldata.bin` is a Git LFS pointer, and there is no `metadata.json`.
        OSError: A file cannot be read.
    """
    data, metadata = folder / COREMLDATA, folder / METADATA
    try:
        interface = _from_data(read_compiled_data(data), functions) if data.is_file() else None
    except NotAModelError:
        if not metadata.is_file():
            raise
        interface = None
    if not metadata.is_file() or (interface is not None and interface.class_labels):
        return interface
    described = _from_metadata(read_metadata_file(metadata))
    return described if interface is None else replace(interface, class_labels=described.class_labels)


def _from_data(data: CompiledData, functions: tuple[str, ...]) -> CompiledInterface:
    description = read_description(data.description, functions)
    return CompiledInterface(
        kind=data.kind,
        spec_version=data.spec_version,
        description=description,
        metadata=read_metadata(data.description.metadata),
        is_updatable=bool(description.main.training_inputs),
        class_labels=data.class_labels,
        stages=data.stages,
        data_bytes=len(data.rest),
    )


def _from_metadata(metadata: CompiledMetadata) -> CompiledInterface:
    return CompiledInterface(
        kind=metadata.kind,
        spec_version=metadata.spec_version,
        description=metadata.description,
        metadata=metadata.metadata,
        is_updatable=metadata.is_updatable,
        class_labels=metadata.class_labels,
        stages=metadata.stages,
    )
