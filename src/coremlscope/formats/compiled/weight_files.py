"""The weight files of a compiled program: those of the model, without what the program does not refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from coremlscope.base.writing import write_draft
from coremlscope.formats.mlmodel import resolve_weight_name
from coremlscope.formats.weights import ALIGNMENT, BlobData, BlobWriter, WeightStorage
from coremlscope.model import ir

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
