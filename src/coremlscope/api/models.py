"""Public functions that read, inspect, list, export and compile models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.base.errors import UsageError
from coremlscope.model.ir import Model
from coremlscope.model.subject import Source

if TYPE_CHECKING:
    from coremlscope.results.model import BundleSummary, ModelSummary
    from coremlscope.results.profile import Profile

__all__ = [
    "Source",
    "compile",
    "export",
    "inspect",
    "list_layers",
    "list_models",
    "name_of",
    "open_sources",
    "read",
]


def read(source: Source) -> Model:
    """Reads a model; returns a model that was already read unchanged.

    Raises:
        NotAModelError: The path does not exist or does not contain a Core ML model.
        CorruptModelError: The model is damaged.
    """
    if isinstance(source, Model):
        return source
    from coremlscope.formats import container

    return container.read(source)


def inspect(
    source: Source,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    function: str | None = None,
    list_ops: bool = False,
) -> ModelSummary:
    """Describes a model without running it. Weights may be absent.

    Args:
        source: The model.
        shapes: Shapes of flexible inputs, instead of the defaults.
        function: The function to put first, instead of the default one.
        list_ops: Lists every operation of that function.

    Raises:
        ModelError: The model cannot be read.
        InputError: A shape is not allowed.
        UsageError: The model has no such function.
    """
    from coremlscope.planning.hazards.summary import describe_model

    return describe_model(read(source), shapes, function=function, list_ops=list_ops)


def list_models(path: str | os.PathLike[str]) -> BundleSummary | None:
    """Lists the models in an app, an archive, a folder or an ExecuTorch program.

    The `source` of a listed model is what other functions take: `App.ipa#Detector.mlmodelc`.

    Returns:
        The models, or None for a path that is itself a model.

    Raises:
        NotAModelError: The path does not exist.
        ModelError: The file is damaged or cannot be read.
    """
    from coremlscope.formats import container

    bundle = container.open_with_models(Path(path))
    if bundle is None:
        return None
    from coremlscope.describe.bundle import describe_bundle

    return describe_bundle(bundle)


def export(
    source: Source,
    path: str | os.PathLike[str],
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[Path, ...]:
    """Writes a function as an ONNX file, or every stage of a pipeline as a folder of ONNX files.

    Args:
        source: The model.
        path: The file to write. Weights of more than 2 GB are written to a second file next to it. For a
            pipeline, a folder for a file for each stage and `pipeline.json`, which describes how they
            connect.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.

    Returns:
        The files that were written.

    Raises:
        ModelError: The model cannot be read or lowered.
        InputError: A shape is not allowed.
        UsageError: The model has no such function, or a pipeline is exported to a file.
        OutputError: A file cannot be written.
    """
    from coremlscope.runtime.execution.export import export_onnx
    from coremlscope.runtime.execution.export_pipeline import export_pipeline
    from coremlscope.runtime.execution.wiring import interface_of

    model, target = read(source), Path(path)
    if not model.content.models:
        return export_onnx(model, target, function=function, shapes=shapes)
    interface_of(model, function)
    if target.suffix.lower() == ".onnx":
        raise UsageError(
            f"a pipeline is exported into a folder, but {target} is a file name",
            f"give a folder, such as {target.with_suffix('')}",
        )
    return export_pipeline(model, target, shapes=shapes)


def compile(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Writes a compiled model, a `.mlmodelc` folder.

    An ML Program is written in the layout of Apple's compiler. The folder of any other model contains the
    model itself and is read only by coremlscope. Not yet confirmed on a device.

    Args:
        path: A `.mlpackage` folder, a zip archive of one, or a `.mlmodel` file.
        output: The folder to write; None for the model's name in the current folder.
        overwrite: Replaces an existing compiled model. Other files and folders are never replaced.

    Returns:
        The folder.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The model is compiled already.
        OutputError: The folder exists or cannot be written.
    """
    from coremlscope.formats.compiled.writing import SUFFIX, write_compiled

    source = Path(path)
    target = Path(source.stem + SUFFIX) if output is None else Path(output)
    write_compiled(source, target, overwrite=overwrite)
    return target


def name_of(source: Source | Profile) -> str:
    """Returns the name of a source: its path, if it has one."""
    from coremlscope.formats.container import path_of
    from coremlscope.results.profile import Profile

    if isinstance(source, Profile):
        return source.model.path
    if isinstance(source, Model):
        return str(source.source or "")
    return "" if isinstance(source, bytes) else str(path_of(source))


def open_sources(source: Source | Profile) -> Iterable[tuple[str, Model | Profile]]:
    """Yields the models or profiles of a source with names: a file of profiles may contain several."""
    from coremlscope.formats.container import path_of
    from coremlscope.interop.source import is_readable
    from coremlscope.results.profile import Profile

    if isinstance(source, Profile):
        return [(name_of(source), source)]
    if not isinstance(source, (bytes, Model)) and is_readable(path_of(source)):
        from coremlscope.api.imported import read_any

        profiles = read_any(source)
        several = len(profiles) > 1
        return [(p.model.path if several else str(source), p) for p in profiles]
    return [(name_of(one), read(one)) for one in list_layers(source)]


def list_layers(source: Source) -> Sequence[Source]:
    """Returns the expression of each layer where a source is an expression of several; else the source."""
    from coremlscope.formats.container import path_of

    if isinstance(source, (bytes, Model)) or os.path.lexists(path_of(source)):
        return [source]
    from coremlscope.formats.expressions.parsing import is_expression

    if not is_expression(path_of(source)):
        return [source]
    from coremlscope.formats.expressions import reading

    return reading.list_layers(path_of(source))
