"""Reading of packages: `.mlpackage` folders and zip archives of them.

`Manifest.json` names the root model item under `Data/`. Weight files are next to that item, under `weights/`.
Archive members are read by name and never extracted to paths from the archive, so they cannot escape a
folder.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from coremlscope.base.errors import CorruptModelError, NotAModelError
from coremlscope.base.units import shown
from coremlscope.formats.archives import check_budget, copy_member, open_zip, read_member
from coremlscope.formats.mlmodel import MAX_SPEC_BYTES, is_inside, is_pointer, read_spec, resolve_weight_name
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir

MANIFEST = "Manifest.json"
DATA = "Data"

_INCOMPLETE = "the package is incomplete; copy or download the whole folder again"
_FETCH = "run `git lfs pull` in its repository to fetch the files of the package"
_MALICIOUS = "do not use this package unless you trust its author; export or download the model again"
#: A folder that macOS adds to archives.
_FINDER_NOISE = "__MACOSX/"
_MAX_MANIFEST_BYTES = 16 * 2**20


class _Files(Protocol):
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
    return _read_package(_Folder(path), path)


def read_archive(path: Path, inside: PurePosixPath | None = None) -> ir.Model:
    """Reads a package in a zip archive.

    Args:
        path: The archive.
        inside: The path of the package in the archive; None if the archive contains one `.mlpackage` folder
            or the content of one.

    Raises:
        NotAModelError: The archive does not contain exactly one package.
        CorruptModelError: The archive or the package is damaged or malicious.
    """
    with open_zip(path) as archive:
        return _read_package(_Archive(path, archive, inside), path)


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


def _read_package(files: _Files, source: Path) -> ir.Model:
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


def _most_bytes(path: PurePosixPath) -> int:
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
        if full.stat().st_size > _most_bytes(path):
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


class _Archive:
    """A package in a zip archive. Weight files are extracted to anonymous temporary files on first use."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, inside: PurePosixPath | None) -> None:
        self._path = path
        self._archive = archive
        files = (info for info in archive.infolist() if not info.is_dir())
        self._members = {info.filename: info for info in files if not info.filename.startswith(_FINDER_NOISE)}
        self._prefix = self._find_package() if inside is None else "".join(f"{p}/" for p in inside.parts)

    def _find_package(self) -> str:
        """Returns the package's folder with a trailing slash, or an empty string at the top level."""
        found = [path for path in map(PurePosixPath, self._members) if path.name == MANIFEST]
        top = [name for name in found if len(name.parts) == min(len(other.parts) for other in found)]
        if not top:
            raise NotAModelError(
                f"the zip archive {self._path} does not contain a package ({MANIFEST} is missing)",
                "zip the whole .mlpackage folder, or unpack the archive and use the model in it",
            )
        if len(top) > 1:
            raise NotAModelError(
                f"the zip archive {self._path} contains {len(top)} packages",
                f"unpack it and use one of them, such as {top[0].parent}",
            )
        return str(top[0])[: -len(MANIFEST)]

    def read(self, path: PurePosixPath) -> bytes:
        info = self._members.get(self._prefix + str(path))
        if info is None:
            raise CorruptModelError(
                f"{shown(str(path))} is missing in the package in {self._path}", _INCOMPLETE
            )
        return read_member(self._archive, info, _most_bytes(path))

    def storage(self, name: str, path: PurePosixPath) -> WeightStorage:
        info = self._members.get(self._prefix + str(path))
        if info is None:
            return WeightStorage(name)
        return WeightStorage(name, opener=lambda: self._unpack(info), size=info.file_size)

    def total_bytes(self) -> int:
        return sum(info.file_size for name, info in self._members.items() if name.startswith(self._prefix))

    def _unpack(self, info: zipfile.ZipInfo) -> IO[bytes]:
        check_budget(self._path, info.file_size, Path(tempfile.gettempdir()))
        target = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        try:
            with open_zip(self._path) as archive:
                copy_member(archive, info, target)
            target.flush()
        except BaseException:
            target.close()
            raise
        return target
