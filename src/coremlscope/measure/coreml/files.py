"""The file of a model as Core ML can read it, and whether coremltools is here to reach Core ML."""

from __future__ import annotations

import importlib.util
import shutil
import zipfile
from pathlib import Path

from coremlscope.errors import CorruptModelError, EngineError, MissingDependencyError
from coremlscope.formats import container
from coremlscope.formats.mlpackage import MANIFEST

__all__ = ["readable_by_core_ml", "require_coremltools"]


def require_coremltools() -> None:
    """Checks that coremltools is installed; it is not imported.

    Raises:
        MissingDependencyError: It is not.
    """
    if importlib.util.find_spec("coremltools") is None:
        raise MissingDependencyError(
            "Core ML is reached through coremltools, which is not installed",
            "pip install 'coremlscope[coreml]'; `--engine onnxruntime` needs no coremltools",
        )


def readable_by_core_ml(source: Path | None, folder: Path) -> Path:
    """The path of a model that Core ML itself can open: a zipped package is unpacked.

    Args:
        source: Where the model is.
        folder: A private folder to unpack into.

    Raises:
        EngineError: The model is only in memory.
        CorruptModelError: The archive holds no package, or would not fit on the disk.
    """
    if source is None:
        raise EngineError("Core ML reads models from files, and this one is in memory", "give its path")
    path = source.expanduser()
    if container.sniff(path) != "zip":
        return path
    target = folder / "unpacked"
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
            if size > shutil.disk_usage(folder).free:
                raise CorruptModelError(
                    f"the zip archive {path} would take {size} bytes, more than the disk has free",
                    "free disk space, or unpack the archive elsewhere",
                )
            archive.extractall(target)
    except (zipfile.BadZipFile, OSError, RuntimeError) as error:
        raise CorruptModelError(f"the zip archive {path} cannot be unpacked: {error}") from None
    manifests = [file for file in sorted(target.rglob(MANIFEST)) if "__MACOSX" not in file.parts]
    if not manifests:
        raise CorruptModelError(f"the zip archive {path} does not contain a package ({MANIFEST} is missing)")
    package = manifests[0].parent
    return package if package.suffix == ".mlpackage" else package.rename(folder / "model.mlpackage")
