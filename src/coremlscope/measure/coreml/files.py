"""The file of a model as Core ML can read it, and whether coremltools is here to reach Core ML."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from coremlscope.base.errors import EngineError, MissingDependencyError, how_to_install
from coremlscope.base.writing import write_draft
from coremlscope.formats import container
from coremlscope.formats.archives import read_gzip
from coremlscope.formats.mlmodel import MAX_SPEC_BYTES


def has_coremltools() -> bool:
    """Returns whether coremltools is installed; it is not imported."""
    return importlib.util.find_spec("coremltools") is not None


def require_coremltools(instead: str = "") -> None:
    """Checks that coremltools is installed.

    Args:
        instead: What works without it, as a part of the hint.

    Raises:
        MissingDependencyError: It is not.
    """
    if not has_coremltools():
        raise MissingDependencyError(
            "Core ML is reached through coremltools, which is not installed",
            "; ".join(filter(None, (how_to_install("coreml"), instead))),
        )


def readable_by_core_ml(source: Path | None, folder: Path) -> Path:
    """Returns the path of a model that Core ML itself can open: a model in an archive is extracted.

    Args:
        source: The path of the model, or its name in an archive or app.
        folder: A private folder to extract to.

    Raises:
        EngineError: The model is only in memory.
        ModelError: The archive contains no model or several, is damaged, or would not fit on the disk.
    """
    if source is None:
        raise EngineError("Core ML reads models from files, and this one is in memory", "give its path")
    path = source.expanduser()
    if container.sniff(path) == "gzip":
        target = folder / f"{path.stem.removesuffix('.mlmodel')}.mlmodel"
        write_draft(target, read_gzip(path, MAX_SPEC_BYTES))
        return target
    return container.on_disk(path)
