"""The user's folders, names in any folder, and files that people name."""

from __future__ import annotations

import difflib
import errno
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

_NAME = "coremlscope"
_DATA_VARIABLE = "COREMLSCOPE_DATA"


def cache_folder() -> Path:
    """Returns the folder for what can be made again, as the system's conventions have it."""
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / _NAME
    return _base("XDG_CACHE_HOME", ".cache") / _NAME


def data_folder() -> Path:
    """Returns the folder for the user's own data. COREMLSCOPE_DATA names another one."""
    chosen = os.environ.get(_DATA_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support" / _NAME
    return _base("XDG_DATA_HOME", ".local/share") / _NAME


def similar_path(path: Path) -> Path | None:
    """Returns the path in the same folder with the most similar name; equal suffixes alone are not similar.

    Returns:
        None if no name is similar, or the folder cannot be read.
    """
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return None
    stem = path.stem.casefold()
    near = [name for name in names if difflib.get_close_matches(stem, [Path(name).stem.casefold()])]
    close = difflib.get_close_matches(path.name, near, n=1, cutoff=0)
    return path.parent / close[0] if close else None


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Returns for each absolute path its name, with as many folders as distinguish it from the others.

    Relative paths stay: they do not say where a person keeps files.
    """
    known = set(paths)
    parts = {
        path: PureWindowsPath(path).parts if PureWindowsPath(path).drive else PurePosixPath(path).parts
        for path in known
        if path.startswith("/") or PureWindowsPath(path).drive
    }
    ends = Counter(own[-count:] for own in parts.values() for count in range(1, len(own)))
    found = {path: path for path in known}
    for path, own in parts.items():
        count = next((count for count in range(1, len(own)) if ends[own[-count:]] == 1), 1)
        found[path] = "/".join(own[-count:])
    return found


def check_regular(path: str | os.PathLike[str]) -> None:
    """Checks that a path is a file or a folder.

    Raises:
        OSError: It is not, or does not exist: a device may have no end, and a pipe no writer.
    """
    kind = stat.S_IFMT(Path(path).stat().st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise OSError(errno.EINVAL, "it is a pipe or a device; save its content in a file", os.fspath(path))


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Returns the content of a file that a person named.

    Raises:
        OSError: It cannot be read, or is a pipe or a device.
    """
    check_regular(path)
    return Path(path).read_bytes()


def _base(variable: str, usual: str) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local")
    return Path(os.environ.get(variable) or _home() / usual)


def _home() -> Path:
    """Returns the user's folder; the root for one whom the system does not know, as containers have it."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.sep)


def split_archive(path: str) -> tuple[str, str]:
    """Splits `App.ipa#Detector.mlmodelc` into the path of an archive and that inside it, which may be empty.

    An archive has a suffix: `net #2.mlmodel` is the name of a file.
    """
    archive, _, inside = path.rpartition("#")
    return (archive, inside) if Path(archive).suffix and inside else (path, "")
