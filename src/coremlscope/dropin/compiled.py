"""Compiled models: folders that contain a model and the files derived from it.

    NAME.mlmodelc/
      coremlscope.json    the marker, which names the model inside
      source/             the model that was compiled
      engine/             the engine's files, written when the model is loaded
      metadata.json       the model's interface, in the format of Apple's compiler
      model.mil           the program as text

The folder can be moved and copied. A loaded model no longer needs it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from coremlscope import ir
from coremlscope.dropin.metadata import describe
from coremlscope.execution.cache import ArtefactCache
from coremlscope.formats import container, miltext
from coremlscope.formats.compiled.marker import locate_source, write_marker
from coremlscope.formats.mlmodel import resolve_weight_name

__all__ = ["SUFFIX", "EngineFolder", "compile_bytes", "compile_path", "write_description"]

SUFFIX = ".mlmodelc"
_ENGINE = "engine"

_SOURCE = "source"
_METADATA = "metadata.json"
_TEXT = "model.mil"


def compile_path(path: Path, *, keep: bool) -> Path:
    """Compiles a model into a new temporary folder.

    Args:
        path: A `.mlpackage` folder or a `.mlmodel` file.
        keep: True if the caller keeps the compiled model. Otherwise its weights are hard links to those of
            the package, where the file system supports links.

    Returns:
        The `.mlmodelc` folder.

    Raises:
        ModelError: The model cannot be read.
        OSError: The folder cannot be written.
    """
    if container.sniff(path) is None:
        container.read(path)  # Raises an error that describes the problem.
    with _new_folder(path.stem) as folder:
        model = folder / _SOURCE / path.name
        if path.is_dir():
            shutil.copytree(path, model, copy_function=shutil.copy if keep else _share_weights)
        else:
            shutil.copy(path, model)
        write_marker(folder, PurePosixPath(_SOURCE, path.name))
        if keep:
            write_description(container.read(folder), folder)
            folder.chmod(model.parent.stat().st_mode)  # `mkdtemp` restricts access to the owner.
    return folder


def compile_bytes(spec: bytes, blobs: Mapping[str, bytes]) -> Path:
    """Compiles a serialised model into a new temporary folder.

    Args:
        spec: The serialised specification.
        blobs: Weight files by their names in the program, with or without `@model_path/`.

    Returns:
        The `.mlmodelc` folder.

    Raises:
        ModelError: The bytes are not a valid model, or a name points outside the model's folder.
        OSError: The folder cannot be written.
    """
    with _new_folder("model") as folder:
        model = folder / _SOURCE / "model.mlmodel"
        model.write_bytes(spec)
        for name, content in blobs.items():
            file = model.parent / resolve_weight_name(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        write_marker(folder, PurePosixPath(_SOURCE, model.name))
    return folder


def write_description(model: ir.Model, folder: Path) -> None:
    """Writes `metadata.json` and `model.mil`, which people and tools read, if they do not exist."""
    name = locate_source(folder).stem
    _write_once(
        folder / _METADATA, lambda: json.dumps(describe(model, name), indent=2, ensure_ascii=False) + "\n"
    )
    if isinstance(model.content, ir.Program):
        program = model.content
        _write_once(folder / _TEXT, lambda: miltext.print_program(program))


class EngineFolder(ArtefactCache):
    """The cache of compiled functions inside a compiled model, which moves with the model."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / _ENGINE, limit_bytes=sys.maxsize)

    @classmethod
    def of(cls, folder: Path) -> EngineFolder | None:
        """The cache of a compiled model; None if the folder is not writable."""
        cache = cls(folder)
        try:
            cache.root.mkdir(exist_ok=True)
        except OSError:
            return None
        return cache if os.access(cache.root, os.W_OK) else None

    def key(self, source: Path, parts: Iterable[str]) -> str:
        """A key of `parts` alone: the model in the folder never changes."""
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@contextlib.contextmanager
def _new_folder(name: str) -> Iterator[Path]:
    """Creates a temporary folder to compile into, which is removed after an error."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", suffix=SUFFIX))
    try:
        (folder / _SOURCE).mkdir()
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _share_weights(source: str, target: str) -> str:
    """Links a file instead of copying it, unless coremltools may modify the file in place."""
    if not source.endswith((".mlmodel", ".json")):
        try:
            os.link(os.path.realpath(source), target)
            return target
        except OSError:
            pass
    return shutil.copy(source, target)


def _write_once(path: Path, text: Callable[[], str]) -> None:
    if not path.exists():
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(text(), encoding="utf-8")
        draft.replace(path)
