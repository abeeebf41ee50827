"""Reading of Core AI models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from coremlscope import ir
from coremlscope.errors import CorruptModelError
from coremlscope.formats.aimodel.bundle import PROGRAM, open_language_bundle, read_metadata
from coremlscope.formats.aimodel.content import Content
from coremlscope.formats.aimodel.opening import open_content

__all__ = ["read_aimodel", "read_language_bundle"]


def read_aimodel(path: Path, weights_dir: Path | None = None) -> ir.Model:
    """Reads an `.aimodel` bundle.

    Args:
        path: The bundle.
        weights_dir: Not used: the weights are part of the program.

    Raises:
        CorruptModelError: The bundle is incomplete, or its program is damaged or was changed.
        UnsupportedModelError: The bundle is compiled for devices, or its version cannot be read.
    """
    del weights_dir
    # Imports the operations, which take long to load.
    from coremlscope.formats.aimodel.interface import DYNAMIC_SIZE, describe
    from coremlscope.formats.aimodel.network import translate

    try:
        opened = open_content(path)
        content, found = opened.content, read_metadata(path)
        program = translate(content)
    except CorruptModelError as error:
        message = error.message if str(path) in error.message else f"{error.message} ({PROGRAM} of {path})"
        raise CorruptModelError(message, error.hint) from None
    remarks = list(opened.remarks)
    if not found.producer:
        remarks.append("the bundle names no producer: beta 2 and later of the systems of 2026 reject it")
    if _is_dynamic(content):
        remarks.append(
            f"the file has no limits of variable sizes; {DYNAMIC_SIZE} is used where none is given"
        )
    return ir.Model(
        spec_version=0,
        description=describe(content),
        content=program,
        metadata=found.metadata,
        source=path,
        container="aimodel",
        reader=opened.reader,
        size_bytes=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        remarks=tuple(remarks),
    )


def read_language_bundle(path: Path, weights_dir: Path | None = None) -> ir.Model:
    """Reads the bundle of a language model, whose folder also holds its tokenizer.

    Raises:
        ModelError: As for `read_aimodel`.
    """
    asset, told = open_language_bundle(path)
    model = read_aimodel(asset, weights_dir)
    metadata = replace(model.metadata, user_defined={**model.metadata.user_defined, **told})
    return replace(model, metadata=metadata)


def _is_dynamic(content: Content) -> bool:
    types = [
        feature.type for graph in content.graphs.values() if not graph.is_private for feature in graph.inputs
    ]
    return any(isinstance(type_, ir.TensorType) and not type_.is_static for type_ in types)
