"""Reading of packages in zip archives.

Members are read by name and never extracted to paths from the archive, so they cannot escape a folder.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO

from coremlscope.base.errors import CorruptModelError, NotAModelError
from coremlscope.base.units import shown
from coremlscope.formats.archives import check_budget, copy_member, open_zip, read_member
from coremlscope.formats.mlpackage import MANIFEST, most_bytes, read_files
from coremlscope.formats.weights import WeightStorage
from coremlscope.model import ir

#: A folder that macOS adds to archives.
_FINDER_NOISE = "__MACOSX/"
_INCOMPLETE = "the package is incomplete; copy or download the whole folder again"


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
        return read_files(_Archive(path, archive, inside), path)


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
        return read_member(self._archive, info, most_bytes(path))

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
