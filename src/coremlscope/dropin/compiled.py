"""Compiled models of the drop-in runtime, in temporary folders.

A model that is loaded from a package is first copied to a temporary folder, so that it does not need the
package any more; its weights are hard links where the file system supports them. `formats.compiled.writing`
describes the folders that are written for a script.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from coremlscope.base.scratch import new_scratch
from coremlscope.base.writing import write_draft
from coremlscope.formats import container
from coremlscope.formats.compiled.marker import locate_source, write_marker
from coremlscope.formats.compiled.writing import SUFFIX, compile_into, link_or_copy, write_source
from coremlscope.formats.mlmodel import resolve_weight_name
from coremlscope.model import ir

_SOURCE = "source"


def compile_path(path: Path) -> Path:
    """Compiles a model into a new temporary folder, for a script to keep.

    Args:
        path: A `.mlpackage` folder or a `.mlmodel` file.

    Returns:
        The `.mlmodelc` folder.

    Raises:
        ModelError: The model cannot be read.
        OSError: The folder cannot be written.
    """
    model = container.read(path)
    with _removed_after_error(Path(tempfile.mkdtemp(prefix=f"{path.stem}-", suffix=SUFFIX))) as folder:
        compile_into(model, path, folder, path.stem, shutil.copyfile)
        inner = next(part for part in folder.iterdir() if part.is_dir())
        folder.chmod(inner.stat().st_mode)  # `mkdtemp` restricts access to the owner.
    return folder


def compile_loaded(model: ir.Model, folder: Path) -> Path:
    """Compiles a loaded model into a new temporary folder.

    Args:
        model: The model, read from `folder`.
        folder: The folder that `copy_model` or `store_bytes` returned.

    Returns:
        The `.mlmodelc` folder, in a temporary folder of its own. Files are hard links where the file system
        supports them.

    Raises:
        ModelError: A weight file is damaged.
        OSError: The folder cannot be written.
    """
    source = locate_source(folder)
    with _removed_after_error(new_scratch()) as scratch:
        compiled = scratch / f"{source.stem}{SUFFIX}"
        compiled.mkdir()
        compile_into(model, source, compiled, source.stem, link_or_copy)
    return compiled


def copy_model(path: Path) -> Path:
    """Copies a model into a folder that can be read as a compiled model, in a temporary folder of its own.

    Weights are hard links where the file system supports them.

    Raises:
        ModelError: The path is not a model.
        OSError: The folder cannot be written.
    """
    if container.sniff(path) is None:
        container.read(path)  # Raises an error that describes the problem.
    with _removed_after_error(new_scratch()) as scratch:
        folder = scratch / f"{path.stem}{SUFFIX}"
        folder.mkdir()
        write_source(container.on_disk(path), folder, _share_weights)
    return folder


def store_bytes(spec: bytes, blobs: Mapping[str, bytes]) -> Path:
    """Stores a serialised model in a new temporary folder that can be read as a compiled model.

    Args:
        spec: The serialised specification.
        blobs: Weight files by their names in the program, with or without `@model_path/`.

    Returns:
        The folder.

    Raises:
        ModelError: A name points outside the model's folder.
        OSError: The folder cannot be written.
    """
    with _removed_after_error(new_scratch("model-", SUFFIX)) as folder:
        model = folder / _SOURCE / "model.mlmodel"
        model.parent.mkdir()
        write_draft(model, spec)
        for name, content in blobs.items():
            file = model.parent / resolve_weight_name(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_draft(file, content)
        write_marker(folder, PurePosixPath(_SOURCE, model.name))
    return folder


@contextlib.contextmanager
def _removed_after_error(folder: Path) -> Iterator[Path]:
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _share_weights(source: Path, target: Path) -> None:
    """Links a file instead of copying it, unless coremltools may modify the file in place."""
    if source.suffix in (".mlmodel", ".json"):
        shutil.copyfile(source, target)
    else:
        link_or_copy(source, target)
