"""Compiled neural networks: folders with `model.espresso.net`, and such files without a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from coremlscope.base.errors import CorruptModelError, NotAModelError
from coremlscope.formats.compiled.interface import CompiledInterface, find_interface
from coremlscope.formats.compiled.marker import COREMLDATA, NET, SHAPE, WEIGHTS
from coremlscope.formats.mlmodel import resolve_weight_name
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir

if TYPE_CHECKING:
    from coremlscope.formats.espresso.network import CompiledFiles

_STEM = "model"
_INCOMPLETE = "the folder is incomplete; copy or download the whole folder again"
#: The first specification versions with and without exact shapes, for files that do not specify theirs.
_EXACT_VERSION, _FIRST_VERSION = 4, 1
NETWORKS = ("neuralNetwork", "neuralNetworkClassifier", "neuralNetworkRegressor")


def read_neural_network(folder: Path) -> ir.Model:
    """Reads a folder with `model.espresso.net`.

    Args:
        folder: The compiled model.

    Raises:
        CorruptModelError: The model is damaged.
        NotAModelError: A file is a Git LFS pointer.
        UnsupportedModelError: The model cannot be read.
    """
    path = folder / f"{_STEM}{NET}"
    if not path.is_file():
        raise CorruptModelError(f"the compiled neural network {folder} has no {path.name}", _INCOMPLETE)
    return _read(path, find_interface(folder))


def read_espresso_file(path: Path) -> ir.Model:
    """Reads a network from the file with its layers and the files of the same name beside it.

    Args:
        path: The file with the layers.

    Raises:
        NotAModelError: The path is one of the other two files, or a Git LFS pointer.
        CorruptModelError: A file is damaged.
        UnsupportedModelError: The model cannot be read.
    """
    for suffix, content in ((SHAPE, "shapes"), (WEIGHTS, "weights")):
        if path.name.endswith(suffix):
            net = path.name.removesuffix(suffix) + NET
            raise NotAModelError(
                f"{path} has only the {content} of a compiled neural network",
                f"use {net}, which has its layers, or the whole .mlmodelc folder",
            )
    model = _read(path, None)
    size = sum(part.stat().st_size for part in path.parent.glob(_stem(path) + ".espresso.*"))
    return replace(model, source=path, container="espresso", size_bytes=size)


def _stem(path: Path) -> str:
    return path.name.removesuffix(NET)


def _read(path: Path, interface: CompiledInterface | None) -> ir.Model:
    # Imports the operations, which take long to load.
    from coremlscope.formats.espresso.blobs import BlobFile
    from coremlscope.formats.espresso.files import read_network_file, read_shape_file
    from coremlscope.formats.espresso.interface import describe_files, with_compiled_shapes
    from coremlscope.formats.espresso.network import CompiledFiles, read_network
    from coremlscope.formats.espresso.preprocessing import parse_tables

    network = read_network_file(path)
    shapes = path.with_name(_stem(path) + SHAPE)
    scaling = path.parent / "model" / COREMLDATA
    storage = _weight_file(path, network.storage)
    files = CompiledFiles(
        network=network,
        shapes=read_shape_file(shapes) if shapes.is_file() else {},
        blobs=BlobFile.open(storage),
        scaling=parse_tables(scaling.read_bytes()) if scaling.is_file() else {},
    )
    if interface is not None and interface.kind not in NETWORKS:
        interface = None
    if interface is None:
        description = describe_files(files)
        content = read_network(NETWORKS[0], files, description.default, description.main)
    else:
        description = with_compiled_shapes(interface.description, files)
        content = read_network(
            interface.kind, files, description.default, description.main, interface.class_labels
        )
    version = _EXACT_VERSION if files.is_exact else _FIRST_VERSION
    return ir.Model(
        spec_version=version if interface is None else interface.spec_version,
        description=description,
        content=content,
        metadata=ir.Metadata() if interface is None else interface.metadata,
        is_updatable=interface is not None and interface.is_updatable,
        weight_files=(ir.WeightFile(storage.name, storage.size),),
        remarks=() if interface is not None else _assumed(files),
    )


def _assumed(files: CompiledFiles) -> tuple[str, ...]:
    shapes = "their shapes are from the shapes file" if files.shapes else "their shapes are unknown"
    return (f"coremldata.bin is missing: inputs and outputs are the ends of the network, and {shapes}",)


def _weight_file(path: Path, given: str) -> WeightStorage:
    """Returns the weight file that the layers' file names, or the one with the name of the layers' file."""
    usual = _stem(path) + WEIGHTS
    name = str(resolve_weight_name(given)) if given else usual
    if not (path.parent / name).is_file() and path.with_name(usual).is_file():
        name = usual
    return WeightStorage(name, path.parent / name)
