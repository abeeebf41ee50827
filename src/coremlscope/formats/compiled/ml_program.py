"""Compiled ML Programs: folders with `model.mil`, and such files alone."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from coremlscope.base.errors import CorruptModelError
from coremlscope.base.units import shown
from coremlscope.formats.compiled.interface import find_interface
from coremlscope.formats.compiled.signature import read_signature
from coremlscope.formats.miltext import parse_program
from coremlscope.formats.mlmodel import MODEL_PATH, resolve_weight_name
from coremlscope.formats.weights import BlobData, WeightStorage
from coremlscope.model import ir

PROGRAM_TEXT = "model.mil"

_PARENT = f"{MODEL_PATH}/../"
_POINTER = b"version https://git-lfs."
_SUFFIX, _START = ".mil", b"program("
#: An attribute of operations in analytics.mil, in which Core ML writes plans, and where it is searched.
_OF_PLANS, _HEAD_BYTES = b"BackendSupport = ", 2**16
#: The specification version in which an operation set was introduced. (Source: coremltools' `_OPSET`.)
_SPEC_VERSIONS = {"CoreML5": 6, "CoreML6": 7, "CoreML7": 8, "CoreML8": 9, "CoreML9": 10}


def is_program_file(path: Path) -> bool:
    """True for a file with the text of a program, except for plans that Core ML wrote (analytics.mil)."""
    if path.suffix != _SUFFIX or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return head.lstrip().startswith(_START) and _OF_PLANS not in head


def read_program_file(path: Path) -> ir.Model:
    """Reads the text of a program, and the other files of a compiled model beside it, if there are any.

    Args:
        path: The file.

    Raises:
        CorruptModelError: The model is damaged.
        UnsupportedModelError: The model cannot be read.
        OSError: A file cannot be read.
    """
    model = _read(path, None)
    size = path.stat().st_size + sum(file.size or 0 for file in model.weight_files)
    return replace(model, source=path, container="mil", size_bytes=size)


def read_ml_program(folder: Path, pipeline: Path | None = None) -> ir.Model:
    """Reads a folder with `model.mil`.

    Args:
        folder: The compiled model.
        pipeline: The folder of the pipeline that contains the model, with which it may share weight files.

    Raises:
        CorruptModelError: The model is damaged.
        UnsupportedModelError: The model cannot be read.
        OSError: A file cannot be read.
    """
    return _read(folder / PROGRAM_TEXT, pipeline)


def _read(path: Path, pipeline: Path | None) -> ir.Model:
    folder = path.parent
    files = _WeightFiles(folder, pipeline)
    text = path.read_bytes()
    if text.startswith(_POINTER):
        raise CorruptModelError(f"{path} is a Git LFS pointer", "run `git lfs pull` to fetch its content")
    program = parse_program(text, files.open_blob, str(path))
    interface = find_interface(folder, tuple(program.functions))
    weights = {str(resolve_weight_name(s.name)): s.size for s in files.storages.values()}
    weight_files = tuple(map(ir.WeightFile, weights, weights.values()))
    if interface is None:
        opsets = [function.opset for function in program.functions.values()]
        return ir.Model(
            spec_version=max(_SPEC_VERSIONS.get(opset, max(_SPEC_VERSIONS.values())) for opset in opsets),
            description=read_signature(program),
            content=program,
            weight_files=weight_files,
        )
    return ir.Model(
        spec_version=interface.spec_version,
        description=_matching(interface.description, program, path),
        content=program,
        metadata=interface.metadata,
        is_updatable=interface.is_updatable,
        weight_files=weight_files,
    )


def _matching(description: ir.Description, program: ir.Program, path: Path) -> ir.Description:
    """Returns an interface with the program's names of functions. `metadata.json` does not name a single one.

    Raises:
        CorruptModelError: The program lacks a function of the interface.
    """
    if len(description.functions) == len(program.functions) == 1:
        (name,) = program.functions
        return ir.Description({name: description.main}, name)
    for name in description.functions:
        if name not in program.functions:
            raise CorruptModelError(
                f"{path} lacks the function '{shown(name)}' of the model's interface",
                "the files in the folder belong to different models; copy or download the whole folder again",
            )
    return description


class _WeightFiles:
    """The weight files of a folder, each opened once."""

    def __init__(self, folder: Path, pipeline: Path | None) -> None:
        self._folder = folder
        self._pipeline = pipeline
        self.storages: dict[str, WeightStorage] = {}

    def open_blob(self, name: str, offset: int, type_: ir.TensorType) -> BlobData:
        """Returns a constant's data in a file that the program names."""
        if name not in self.storages:
            self.storages[name] = self._open(name)
        return BlobData(self.storages[name], offset, type_)

    def _open(self, name: str) -> WeightStorage:
        folder = self._folder
        if self._pipeline is not None and name.startswith(_PARENT):
            folder, name = self._pipeline, f"{MODEL_PATH}/{name.removeprefix(_PARENT)}"
        relative = resolve_weight_name(name)
        path = folder / relative
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise CorruptModelError(
                f"{shown(str(relative))} in {folder} is a link to outside the compiled model",
                "do not use this model unless you trust its author; export or download the model again",
            )
        return WeightStorage(name, path)
