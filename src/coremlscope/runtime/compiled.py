"""Compiled models: folders that hold a model and all that is derived from it.

    NAME.mlmodelc/
      coremlscope.json    the marker, which names the model inside
      source/             the model that was compiled
      engine/             what the engine made of it; written when the model is loaded
      metadata.json       the interface of the model, as Apple's compiler describes it
      model.mil           the program as text

The folder can be moved and copied; a loaded model does not need it any more.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from coremlscope import formats, ir
from coremlscope.formats.compiled import write_marker
from coremlscope.formats.mlmodel import resolve_weight_name
from coremlscope.runtime.metadata import describe

__all__ = ["ENGINE", "SUFFIX", "compile_bytes", "compile_path", "write_description"]

SUFFIX = ".mlmodelc"
#: Folder of what the engine made, inside of a compiled model.
ENGINE = "engine"

_SOURCE = "source"
_METADATA = "metadata.json"
_TEXT = "model.mil"


def compile_path(path: Path, *, keep: bool) -> Path:
    """Compiles a model into a new folder inside of a new temporary folder.

    Args:
        path: A `.mlpackage` folder or a `.mlmodel` file.
        keep: Whether the compiled model is for the caller to keep. One that lives as short as this process
            shares the weights' disk space with the package, where the file system can do that.

    Raises:
        ModelError: The model cannot be read.
        OSError: The folder cannot be written.
    """
    folder = _new_folder(path.stem)
    try:
        model = folder / _SOURCE / path.name
        model.parent.mkdir()
        if path.is_dir():
            shutil.copytree(path, model, copy_function=shutil.copy if keep else _share_weights)
        else:
            shutil.copy(path, model)
        _finish(folder, model)
    except BaseException:
        shutil.rmtree(folder.parent, ignore_errors=True)
        raise
    return folder


def compile_bytes(spec: bytes, blobs: Mapping[str, bytes]) -> Path:
    """Compiles a model that is given as bytes.

    Args:
        spec: The serialised specification.
        blobs: Weight files by the names that the program gives them, with or without `@model_path/`.

    Raises:
        ModelError: The bytes are no model, or a name leads out of the model's folder.
        OSError: The folder cannot be written.
    """
    folder = _new_folder("model")
    try:
        model = folder / _SOURCE / "model.mlmodel"
        model.parent.mkdir()
        model.write_bytes(spec)
        for name, content in blobs.items():
            file = model.parent / resolve_weight_name(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        _finish(folder, model)
    except BaseException:
        shutil.rmtree(folder.parent, ignore_errors=True)
        raise
    return folder


def write_description(model: ir.Model, folder: Path) -> None:
    """Writes the files by which people and tools know a compiled model, where they are not there yet."""
    _write_once(folder / _METADATA, lambda: json.dumps(describe(model), indent=2, ensure_ascii=False) + "\n")
    if isinstance(model.content, ir.Program):
        program = model.content
        _write_once(folder / _TEXT, lambda: formats.print_program(program))


def _new_folder(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="coremlscope-")) / f"{name}{SUFFIX}"
    folder.mkdir()
    return folder


def _finish(folder: Path, model: Path) -> None:
    write_marker(folder, PurePosixPath(*model.relative_to(folder).parts))
    formats.read(folder)


def _share_weights(source: str, target: str) -> str:
    """Links a file instead of copying it, if it is none that coremltools writes to in place."""
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
