"""Writing of `.mlpackage` folders: ML Programs, and specifications of other models."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from coremlscope.base.errors import OutputError
from coremlscope.base.writing import check_new_folder, new_folder, write_draft
from coremlscope.formats.mlmodel import MODEL_PATH, write_spec
from coremlscope.formats.mlpackage import DATA, MANIFEST, read_package_spec
from coremlscope.formats.values import write_immediate, write_type
from coremlscope.formats.weights import BlobData, BlobWriter
from coremlscope.model import ir
from coremlscope.model.schema import Message

_AUTHOR = "com.apple.CoreML"
_SPEC_NAME = "model.mlmodel"
_SPEC_ITEM = (_SPEC_NAME, "CoreML Model Specification")
_WEIGHTS = "weights"

#: Constants with at least this many elements are written to the weight file, as by coremltools.
_BLOB_ELEMENTS = 10
#: The element types that weight files may contain before specification version 9 (iOS 18), which allows all.
_EARLY_BLOB_TYPES = {ir.DType.FP16, ir.DType.FP32, ir.DType.UINT8, ir.DType.INT8}
_SPEC_IOS18 = 9


def write_mlpackage(model: ir.Model, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Writes an ML Program as a package. Reading the package returns an equal model.

    The package gets its final name only when it is complete. Constants with at least ten elements are written
    to `weights/weight.bin`, equal ones once. A constant whose weight file is missing keeps its reference to
    that file, so the package becomes usable when the file is added; other constants are then written to a
    file with another name.

    Args:
        model: A model with a program.
        path: The path of the package. It must end in `.mlpackage`.
        overwrite: Replaces an existing package. Other files and folders are never replaced.

    Raises:
        OutputError: The model is not an ML Program, or the path exists or cannot be written.
        ModelError: A weight file of `model` is damaged.
    """
    target = Path(path)
    if not model.content.functions:
        raise OutputError(f"models of type {model.kind} cannot be written", "only ML Programs can be written")
    check_package(target, overwrite=overwrite)
    try:
        with new_folder(target, overwrite=overwrite) as draft:
            _write(model, draft)
    except ValueError as error:
        raise OutputError(
            f"{target} cannot be written: {error}", "keep large constants in the weight file"
        ) from None


def write_spec_package(spec: bytes, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Writes a serialised specification without weight files as a package.

    Args:
        spec: The bytes of a `Model` message.
        path: The path of the package. It must end in `.mlpackage`.
        overwrite: Replaces an existing package. Other files and folders are never replaced.

    Raises:
        OutputError: The path exists or cannot be written.
    """
    target = Path(path)
    check_package(target, overwrite=overwrite)
    with new_folder(target, overwrite=overwrite) as draft:
        (draft / DATA / _AUTHOR).mkdir(parents=True)
        write_draft(draft / DATA / _AUTHOR / _SPEC_NAME, spec)
        write_draft(draft / MANIFEST, _manifest(_SPEC_ITEM))


def has_layers(model: ir.Model) -> bool:
    """Returns whether the layers of a neural network can be copied: those of a stage, or of a compiled
    network, cannot."""
    source = model.source
    if source is None or model.stage:
        return False
    return source.is_dir() if model.container == "mlpackage" else model.container == "mlmodel"


def spec_of(model: ir.Model) -> bytes:
    """Returns the serialised specification of a neural network that has layers; see `has_layers`."""
    assert model.source is not None
    return model.source.read_bytes() if model.container == "mlmodel" else read_package_spec(model.source)


def check_package(target: Path, *, overwrite: bool) -> None:
    """Checks in advance that a package can be written.

    Raises:
        OutputError: The path does not end in `.mlpackage`, exists, or nothing can be written there.
    """
    check_new_folder(
        target,
        ".mlpackage",
        overwrite=overwrite,
        what="a package",
        is_replaceable=lambda folder: (folder / MANIFEST).is_file(),
    )


def _write(model: ir.Model, package: Path) -> None:
    folder = package / DATA / _AUTHOR
    (folder / _WEIGHTS).mkdir(parents=True)
    with _Constants(model, folder / _WEIGHTS) as write_value:
        spec = write_spec(model, write_value)
    write_draft(folder / _SPEC_NAME, spec)
    write_draft(package / MANIFEST, _manifest(_SPEC_ITEM, (_WEIGHTS, "CoreML Model Weights")))


def _manifest(*items: tuple[str, str]) -> str:
    """Returns the manifest. Identifiers are derived from names, so equal models give equal packages."""
    entries = {
        str(uuid.uuid5(uuid.NAMESPACE_URL, f"{_AUTHOR}/{name}")).upper(): {
            "author": _AUTHOR,
            "description": description,
            "name": name,
            "path": f"{_AUTHOR}/{name}",
        }
        for name, description in items
    }
    manifest = {
        "fileFormatVersion": "1.0.0",
        "itemInfoEntries": entries,
        "rootModelIdentifier": next(iter(entries)),
    }
    return json.dumps(manifest, indent=4) + "\n"


class _Constants(contextlib.AbstractContextManager["_Constants"]):
    """Writes each constant inline, to the weight file, or as a reference to a missing file."""

    def __init__(self, model: ir.Model, folder: Path) -> None:
        missing = {data.storage.name for data in _missing_blobs(model)}
        stems = ("weight", *(f"weight-{index}" for index in range(1, len(missing) + 1)))
        names = ((stem, f"{MODEL_PATH}/{_WEIGHTS}/{stem}.bin") for stem in stems)
        stem, self._name = next((stem, name) for stem, name in names if name not in missing)
        self._path = folder / f"{stem}.bin"
        self._dtypes = _EARLY_BLOB_TYPES if model.spec_version < _SPEC_IOS18 else set(ir.DType)
        self._writer: BlobWriter | None = None
        self._stack = contextlib.ExitStack()

    def __call__(self, constant: ir.Constant, message: Message) -> None:
        data = constant.data
        if isinstance(data, BlobData) and not data.is_available:
            self._write_reference(constant, data.storage.name, data.offset, message)
        elif self._belongs_in_file(constant):
            if self._writer is None:
                self._writer = self._stack.enter_context(BlobWriter(self._path))
            self._write_reference(constant, self._name, self._writer.write(constant), message)
        else:
            write_immediate(constant, message)

    def _belongs_in_file(self, constant: ir.Constant) -> bool:
        match constant.type:
            case ir.TensorType(dtype):
                is_large = (constant.type.elements or 0) >= _BLOB_ELEMENTS
                return is_large and dtype in self._dtypes and BlobWriter.accepts(dtype)
            case _:
                return False

    @staticmethod
    def _write_reference(constant: ir.Constant, name: str, offset: int, message: Message) -> None:
        write_type(constant.type, message.type)
        message.blobFileValue.fileName = name
        message.blobFileValue.offset = offset

    def __exit__(self, *exc: object) -> None:
        self._stack.close()


def _missing_blobs(model: ir.Model) -> Iterator[BlobData]:
    for function in model.content.functions.values():
        for op in function.graph.walk():
            arguments = (argument for group in op.inputs.values() for argument in group)
            constants = (argument for argument in arguments if isinstance(argument, ir.Constant))
            for constant in (*op.attributes.values(), *constants):
                if isinstance(constant.data, BlobData) and not constant.is_available:
                    yield constant.data
