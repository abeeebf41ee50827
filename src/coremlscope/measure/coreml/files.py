"""The file of a model as Core ML can read it, and whether coremltools is here to reach Core ML."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from coremlscope.base.errors import EngineError, MissingDependencyError, how_to_install
from coremlscope.base.writing import write_draft
from coremlscope.formats import container
from coremlscope.formats.archives import read_gzip
from coremlscope.formats.mlmodel import MAX_SPEC_BYTES

#: The oldest and the newest Python for which coremltools 9 has wheels, of those that this package runs on.
_FIRST_PYTHON, _LAST_PYTHON = (3, 11), (3, 13)


def has_coremltools() -> bool:
    """Returns whether coremltools is installed; it is not imported."""
    return importlib.util.find_spec("coremltools") is not None


def wheels_hint(python: tuple[int, ...]) -> str:
    """Returns what to do where coremltools has no wheels for a version of Python; empty where it has."""
    if _FIRST_PYTHON <= python[:2] <= _LAST_PYTHON:
        return ""
    first, last = (".".join(map(str, version)) for version in (_FIRST_PYTHON, _LAST_PYTHON))
    return f"coremltools has wheels for Python {first} to {last}: use one of these"


def require_coremltools(instead: str = "") -> None:
    """Checks that coremltools is installed.

    Args:
        instead: What works without it, as a part of the hint.

    Raises:
        MissingDependencyError: It is not.
    """
    if not has_coremltools():
        hint = wheels_hint(sys.version_info[:2]) or how_to_install("coreml")
        raise MissingDependencyError(
            "Core ML is reached through coremltools, which is not installed",
            "; ".join(filter(None, (hint, instead))),
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
