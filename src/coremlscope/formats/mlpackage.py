"""Reading of packages: `.mlpackage` folders, and what archives of them share.

`Manifest.json` names the root model item under `Data/`. Weight files are next to that item, under `weights/`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath
from typing import Protocol

from coremlscope.base.errors import CorruptModelError
from coremlscope.base.units import shown
from coremlscope.formats.mlmodel import MAX_SPEC_BYTES, is_inside, is_pointer, read_spec, resolve_weight_name
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir

MANIFEST = "Manifest.json"
DATA = "Data"

_INCOMPLETE = "the package is incomplete; copy or download the whole folder again"
_FETCH = "run `git lfs pull` in its repository to fetch the files of the package"
_MALICIOUS = "do not use this package unless you trust its author; export or download the model again"
_MAX_MANIFEST_BYTES = 16 * 2**20


class PackageFiles(Protocol):
    """The files of a package, in a folder or an archive. Paths are relative to the package and checked."""

    def read(self, path: PurePosixPath) -> bytes:
        """Returns the content of a file."""

    def storage(self, name: str, path: PurePosixPath) -> WeightStorage:
        """Returns a weight file, which may be missing."""

    def total_bytes(self) -> int:
        """Returns the total size of all files in bytes."""


def read_mlpackage(path: Path) -> ir.Model:
    """Reads a `.mlpackage` folder.

    Raises:
        CorruptModelError: The package is incomplete, or its manifest is damaged or points outside the
            package.
    """
    return read_files(_Folder(path), path)


def read_package_spec(path: Path) -> bytes:
    """Returns the serialised specification in a `.mlpackage` folder.

    Raises:
        CorruptModelError: The package is incomplete, or its manifest is damaged or points outside it.
    """
    files = _Folder(path)
    return files.read(_root_item(files.read(PurePosixPath(MANIFEST)), path))


def missing_items(path: str | os.PathLike[str]) -> list[str]:
    """Returns the paths of the items in a package's manifest that do not exist, relative to the package.

    A package without a readable manifest has no items.
    """
    try:
        manifest = json.loads(Path(path, MANIFEST).read_bytes())
        items = [PurePosixPath(DATA, item["path"]) for item in manifest["itemInfoEntries"].values()]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []
    return [shown(str(item)) for item in items if is_inside(item) and not Path(path, item).exists()]


def read_files(files: PackageFiles, source: Path) -> ir.Model:
    """Reads a package from its files."""
    item = _root_item(files.read(PurePosixPath(MANIFEST)), source)

    def open_storage(name: str) -> WeightStorage:
        return files.storage(name, item.parent / resolve_weight_name(name))

    data = files.read(item)
    return read_spec(data, open_storage, source=source, container="mlpackage", size_bytes=files.total_bytes())


def _root_item(manifest: bytes, source: Path) -> PurePosixPath:
    """Returns the path of the model specification, relative to the package."""
    try:
        content = json.loads(manifest)
        identifier = content["rootModelIdentifier"]
        path = content["itemInfoEntries"][identifier]["path"]
        if not isinstance(path, str):
            raise TypeError("path")
    except (ValueError, RecursionError):
        if is_pointer(manifest):
            raise CorruptModelError(f"the manifest of {source} is a Git LFS pointer", _FETCH) from None
        raise CorruptModelError(f"the manifest of {source} is not JSON", _INCOMPLETE) from None
    except (KeyError, TypeError):
        raise CorruptModelError(
            f"the root model is missing in the manifest of {source}", _INCOMPLETE
        ) from None
    if not is_inside(PurePosixPath(path)):
        raise CorruptModelError(
            f"the manifest of {source} points outside the package: '{shown(path)}'", _MALICIOUS
        )
    return PurePosixPath(DATA, path)


def most_bytes(path: PurePosixPath) -> int:
    """The maximum size of a file that is read into memory: the manifest or the specification."""
    return _MAX_MANIFEST_BYTES if path.name == MANIFEST else MAX_SPEC_BYTES


class _Folder:
    """A package on disk.

    Files may be links, as in the Hugging Face cache. Links to folders must not lead outside the package.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: PurePosixPath) -> bytes:
        full = self._locate(path)
        if not full.is_file():
            raise CorruptModelError(f"{shown(str(path))} is missing in the package {self._root}", _INCOMPLETE)
        if full.stat().st_size > most_bytes(path):
            raise CorruptModelError(
                f"{shown(str(path))} in the package {self._root} is too large", _MALICIOUS
            )
        return full.read_bytes()

    def storage(self, name: str, path: PurePosixPath) -> WeightStorage:
        return WeightStorage(name, self._locate(path))

    def total_bytes(self) -> int:
        return sum(file.stat().st_size for file in self._root.rglob("*") if file.is_file())

    def _locate(self, path: PurePosixPath) -> Path:
        full = self._root / path
        if not full.parent.resolve().is_relative_to(self._root.resolve()):
            raise CorruptModelError(
                f"{shown(str(path))} in the package {self._root} is a link to outside the package", _MALICIOUS
            )
        return full
