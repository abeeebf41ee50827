"""Compiling of models: writing of `.mlmodelc` folders.

An ML Program is written in the layout of Apple's compiler, but unchanged: nothing is folded or fused.

    model.mil                 the program as text
    weights/…                 the weight files, without what the program does not refer to
    metadata.json             the interface and what the program contains, as text
    coremldata.bin            the interface
    analytics/coremldata.bin  a hash and the model's name

Apple's layouts of other models are not published. Their folders contain the source model; see `marker`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from coremlscope.base.errors import UsageError
from coremlscope.base.escaping import path_text
from coremlscope.base.writing import check_new_folder, new_folder, write_draft
from coremlscope.formats import container
from coremlscope.formats.compiled.coremldata import format_analytics, format_program_data
from coremlscope.formats.compiled.marker import COREMLDATA, ESPRESSO_FILES, MARKER, PROGRAM_TEXT, write_marker
from coremlscope.formats.compiled.metadata import METADATA, describe_model
from coremlscope.formats.description import write_description
from coremlscope.formats.miltext import print_program
from coremlscope.formats.mlmodel import resolve_weight_name
from coremlscope.formats.weights import ALIGNMENT, BlobData, BlobWriter, WeightStorage
from coremlscope.model import ir, schema

# The weight files of a compiled program: those of the model, without what the program does not refer to.

#: The sizes of a file's header and of a blob's metadata in bytes; see `formats.weights`.
_HEADER_BYTES = _METADATA_BYTES = 64


def write_weight_files(program: ir.Program, folder: Path, copy: Callable[[Path, Path], object]) -> ir.Program:
    """Writes the weight files of a program.

    A file in which every byte is used is copied whole. Of other files, the blobs that the program refers to
    are written to a new file. References to missing files stay as they are.

    Args:
        program: The program.
        folder: The folder of the compiled model.
        copy: Copies or links a file.

    Returns:
        The program, which refers to the written files.

    Raises:
        ModelError: A weight file is damaged.
        OSError: A file cannot be written.
    """
    blobs: dict[str, dict[int, ir.Constant]] = {}
    storages: dict[str, WeightStorage] = {}
    for constant in _constants(program):
        if isinstance(constant.data, BlobData) and constant.is_available:
            storages[constant.data.storage.name] = constant.data.storage
            blobs.setdefault(constant.data.storage.name, {}).setdefault(constant.data.offset, constant)
    moved: dict[tuple[str, int], int] = {}
    for name, storage in storages.items():
        target = folder / resolve_weight_name(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if _is_used_up(storage, blobs[name].values()):
            _copy_whole(storage, target, copy)
            continue
        with BlobWriter(target) as writer:
            for offset in sorted(blobs[name]):
                moved[name, offset] = writer.write(blobs[name][offset])

    def refer(constant: ir.Constant) -> ir.Constant:
        data = constant.data
        if not isinstance(data, BlobData) or (data.storage.name, data.offset) not in moved:
            return constant
        name = data.storage.name
        storage = WeightStorage(name, folder / resolve_weight_name(name))
        return replace(constant, data=BlobData(storage, moved[name, data.offset], data.type))

    return _map_constants(program, refer) if moved else program


def _is_used_up(storage: WeightStorage, constants: Iterable[ir.Constant]) -> bool:
    """True if blobs that the program does not refer to would need space that the file does not have."""
    used = _HEADER_BYTES
    for constant in constants:
        assert isinstance(constant.data, BlobData)
        _, size = constant.data.location()
        used += _METADATA_BYTES + -(-size // ALIGNMENT) * ALIGNMENT
    return (storage.size or 0) < used + _METADATA_BYTES


def _copy_whole(storage: WeightStorage, target: Path, copy: Callable[[Path, Path], object]) -> None:
    if storage.path is not None:
        copy(storage.path, target)
    else:  # A member of an archive.
        write_draft(target, storage.read(0, storage.size or 0, "the file"))


def _constants(program: ir.Program) -> Iterator[ir.Constant]:
    for function in program.functions.values():
        for op in function.graph.walk():
            yield from op.attributes.values()
            for group in op.inputs.values():
                yield from (argument for argument in group if isinstance(argument, ir.Constant))


def _map_constants(program: ir.Program, change: Callable[[ir.Constant], ir.Constant]) -> ir.Program:
    """Returns the program with other constants in its operations."""

    def in_argument(argument: ir.Argument) -> ir.Argument:
        return change(argument) if isinstance(argument, ir.Constant) else argument

    def in_op(op: ir.Op) -> ir.Op:
        return replace(
            op,
            inputs={name: tuple(map(in_argument, group)) for name, group in op.inputs.items()},
            attributes={name: change(value) for name, value in op.attributes.items()},
            blocks=tuple(map(in_graph, op.blocks)),
        )

    def in_graph(graph: ir.Graph) -> ir.Graph:
        return replace(graph, ops=tuple(map(in_op, graph.ops)))

    functions = {name: replace(f, graph=in_graph(f.graph)) for name, f in program.functions.items()}
    return replace(program, functions=functions)


SUFFIX = ".mlmodelc"

_SOURCE = "source"
_ANALYTICS = "analytics"

#: Copies or links a file: source, target.
Copy = Callable[[Path, Path], object]


def write_compiled(source: Path, target: Path, *, overwrite: bool = False) -> ir.Model:
    """Compiles a model into a `.mlmodelc` folder, which gets its name only when it is complete.

    Args:
        source: A `.mlpackage` folder, a zip archive of one, or a `.mlmodel` file.
        target: The path of the compiled model. It must end in `.mlmodelc`.
        overwrite: Replaces an existing compiled model. Other files and folders are never replaced.

    Returns:
        The model that was compiled.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The model is compiled already.
        OutputError: The target exists or cannot be written.
    """
    model = container.read(source)
    if model.container == "mlmodelc":
        raise UsageError(f"{source} is a compiled model already", "copy the folder instead")
    if model.container == "aimodel":
        raise UsageError(
            f"{source} is a Core AI model, which has no .mlmodelc form",
            "`xcrun coreai-build compile` on a Mac compiles it for devices",
        )
    check_new_folder(
        target,
        SUFFIX,
        overwrite=overwrite,
        what="a compiled model",
        is_replaceable=_is_compiled,
    )
    with new_folder(target, overwrite=overwrite) as draft:
        compile_into(model, container.on_disk(source), draft, target.stem, shutil.copyfile)
    return model


def compile_into(model: ir.Model, source: Path, folder: Path, name: str, copy: Copy) -> None:
    """Writes a compiled model into an empty folder.

    Args:
        model: The model, read from `source`.
        source: The path of the model.
        folder: The folder.
        name: The name of the compiled model without the suffix.
        copy: Copies or links a file.

    Raises:
        ModelError: A weight file is damaged.
        OSError: A file cannot be written.
    """
    if model.content.is_typed:
        _write_program(model, model.program, folder, name, copy)
    else:
        write_source(source, folder, copy)
    metadata = json.dumps(describe_model(model, path_text(Path(name))), indent=2, ensure_ascii=False)
    write_draft(folder / METADATA, metadata + "\n")


def link_or_copy(source: Path, target: Path) -> None:
    """Links a file instead of copying it, where the file system supports hard links."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def _write_program(model: ir.Model, program: ir.Program, folder: Path, name: str, copy: Copy) -> None:
    text = print_program(write_weight_files(program, folder, copy)).encode()
    write_draft(folder / PROGRAM_TEXT, text)
    message = schema.message_class("ModelDescription")()
    write_description(model.description, model.metadata, message)
    write_draft(folder / COREMLDATA, format_program_data(model.spec_version, message))
    (folder / _ANALYTICS).mkdir()
    write_draft(folder / _ANALYTICS / COREMLDATA, format_analytics(text, path_text(Path(name))))


def _is_compiled(folder: Path) -> bool:
    """True for a folder that holds a compiled model, whatever its name."""
    return any((folder / name).is_file() for name in (MARKER, COREMLDATA, PROGRAM_TEXT, *ESPRESSO_FILES))


def write_source(source: Path, folder: Path, copy: Copy) -> None:
    """Writes a compiled model that contains its source model.

    Args:
        source: The path of the model.
        folder: An empty folder.
        copy: Copies or links a file.

    Raises:
        OSError: A file cannot be written.
    """
    target = folder / _SOURCE / source.name
    target.parent.mkdir()
    if source.is_dir():
        shutil.copytree(source, target, copy_function=lambda a, b: copy(Path(a), Path(b)))
    else:
        copy(source, target)
    write_marker(folder, PurePosixPath(_SOURCE, source.name))
