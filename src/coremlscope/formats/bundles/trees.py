"""The files of a bundle by their paths inside it, in a folder, a zip archive or memory."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

from coremlscope.base.errors import CorruptModelError
from coremlscope.base.units import shown
from coremlscope.base.writing import open_draft, write_draft
from coremlscope.formats.archives import check_budget, copy_member, is_link, open_zip
from coremlscope.formats.mlmodel import is_inside

#: Selects the files to extract, by their paths in the bundle.
Wanted = Callable[[PurePosixPath], bool]

_MAX_FILES = 200_000
_UNTRUSTED = "do not use this archive unless you trust its author"
#: A folder that macOS adds to archives.
_FINDER_NOISE = "__MACOSX"


class Tree(Protocol):
    """The files of a bundle.

    Attributes:
        path: The bundle.
        sizes: The size of each file in bytes, by its path in the bundle.
        folder: The folder that holds the files on disk; None if they must be extracted.
    """

    @property
    def path(self) -> Path: ...
    @property
    def sizes(self) -> Mapping[PurePosixPath, int]: ...
    @property
    def folder(self) -> Path | None: ...

    def extract(self, inside: PurePosixPath, target: Path, wanted: Wanted) -> None:
        """Writes a file, or all files below a folder, to an empty folder, under their paths below `inside`.

        Raises:
            CorruptModelError: The files are damaged or too large, or there are links among them.
        """


class FolderTree:
    """The files in a folder. Links to folders are not followed.

    Attributes:
        unreadable: The folders inside it that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        """Lists the files.

        Raises:
            CorruptModelError: There are too many files.
        """
        self.path, self.folder = path, path
        self.sizes: dict[PurePosixPath, int] = {}
        self.unreadable: list[Path] = []
        for folder, folders, files in os.walk(path, onerror=self._note):
            folders.sort()
            for name in files:
                file = Path(folder, name)
                if file.is_file():
                    self.sizes[PurePosixPath(file.relative_to(path).as_posix())] = file.stat().st_size
            if len(self.sizes) > _MAX_FILES:
                raise CorruptModelError(
                    f"the folder {path} has more than {_MAX_FILES} files", "name a folder inside it"
                )

    def _note(self, error: OSError) -> None:
        self.unreadable.append(Path(error.filename))

    def extract(self, inside: PurePosixPath, target: Path, wanted: Wanted) -> None:
        """Copies files; see `Tree`."""
        for path in self.sizes:
            if _is_below(path, inside) and wanted(path):
                copy = _place(target, path, inside)
                shutil.copyfile(Path(self.path, path), copy)


class ZipTree:
    """The files in a zip archive. Members with paths that leave the archive are ignored."""

    folder: Path | None = None

    def __init__(self, path: Path) -> None:
        """Lists the members.

        Raises:
            CorruptModelError: The archive is damaged, or its members are too large in total.
        """
        self.path = path
        self._members: dict[PurePosixPath, zipfile.ZipInfo] = {}
        with open_zip(path) as archive:
            for info in archive.infolist():
                inside = PurePosixPath(info.filename)
                if not info.is_dir() and is_inside(inside) and inside.parts[0] != _FINDER_NOISE:
                    self._members[inside] = info
        self.sizes = {inside: info.file_size for inside, info in self._members.items()}

    def extract(self, inside: PurePosixPath, target: Path, wanted: Wanted) -> None:
        """Unpacks members; see `Tree`."""
        chosen = {
            path: info for path, info in self._members.items() if _is_below(path, inside) and wanted(path)
        }
        links = [path for path, info in chosen.items() if is_link(info)]
        if links:
            raise CorruptModelError(f"{shown(str(links[0]))} in {self.path} is a link", _UNTRUSTED)
        check_budget(self.path, sum(info.file_size for info in chosen.values()), target)
        with open_zip(self.path) as archive:
            for path, info in chosen.items():
                with open_draft(_place(target, path, inside)) as file:
                    copy_member(archive, info, file)


class MemoryTree:
    """Files in memory: parts of a larger file."""

    folder: Path | None = None

    def __init__(self, path: Path, files: Mapping[PurePosixPath, memoryview]) -> None:
        self.path = path
        self._files = files
        self.sizes = {inside: len(content) for inside, content in files.items()}

    def extract(self, inside: PurePosixPath, target: Path, wanted: Wanted) -> None:
        """Writes files; see `Tree`."""
        chosen = {p: c for p, c in self._files.items() if _is_below(p, inside) and wanted(p)}
        check_budget(self.path, sum(map(len, chosen.values())), target)
        for path, content in chosen.items():
            write_draft(_place(target, path, inside), content)


def _is_below(path: PurePosixPath, inside: PurePosixPath) -> bool:
    """True for a path that is, or is below, another; faster than `is_relative_to` for many files."""
    return not inside.parts or path == inside or str(path).startswith(f"{inside}/")


def _place(target: Path, path: PurePosixPath, inside: PurePosixPath) -> Path:
    """Returns the path of an extracted file, whose folder it creates."""
    relative = path.relative_to(inside)
    place = target / (relative if relative.parts else path.name)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise CorruptModelError(f"{shown(str(path))} is both a file and a folder", _UNTRUSTED) from None
    return place
