"""A cache of compiled functions on disk, shared by processes."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from coremlscope.base.errors import OutputError, UsageError
from coremlscope.base.folders import cache_folder
from coremlscope.base.units import parse_bytes
from coremlscope.base.writing import place_folder, write_draft, write_file

_LIMIT_BYTES = 4 << 30
_ROOT_VARIABLE, _LIMIT_VARIABLE = "COREMLSCOPE_CACHE", "COREMLSCOPE_CACHE_LIMIT"
_UNFINISHED, _REMOVING = ".making-", ".removing-"
#: The file in a cached folder that tells what it was created from.
_NAME = "name.txt"
#: The file in a cached folder with its key and the digests of the other files.
_SEAL = "seal.json"
#: The folder with the digests of files of at least this size.
_DIGESTS, _LARGE_BYTES = ".digests", 1 << 20
_MAX_DIGESTS = 1000
#: The age of a file from which a change has another time of modification, in seconds.
_SETTLED_S = 2.0
#: Older unfinished folders are leftovers of a process that died.
_STALE_S = 24 * 3600.0
#: The folder of this package.
_PACKAGE = Path(__file__).resolve().parents[2]
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def digest_of_file(path: Path) -> str:
    """Returns the SHA-256 of a file's content.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key_of_content(
    root: Path, parts: Iterable[str], digest_of: Callable[[Path], str] = digest_of_file
) -> str:
    """Returns a cache key that depends on the content of files, not on their place.

    Args:
        root: The file or folder. Names below it are part of the key.
        parts: Other values that the key depends on.
        digest_of: Returns the digest of a file's content.

    Raises:
        OSError: A file cannot be read.
    """
    digest = hashlib.sha256()
    files = sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else [root]
    for path in files:
        digest.update(os.fsencode(f"\0{path.relative_to(root)}\0{digest_of(path)}"))
    for part in parts:
        digest.update(f"\0{part}".encode())
    return digest.hexdigest()[:32]


@functools.cache
def digest_of_code(root: Path = _PACKAGE) -> str:
    """Returns a digest of the package's modules and data, which compiled bytecode does not change.

    Results of one version may differ where it was installed from several states of its repository.

    Args:
        root: The folder of the package.

    Raises:
        OSError: A file cannot be read.
    """
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix != ".pyc" and path.is_file():
            digest.update(f"\0{path.relative_to(root).as_posix()}\0{digest_of_file(path)}".encode())
    return digest.hexdigest()


def default_cache() -> ArtefactCache:
    """Returns the user's cache.

    The environment variable COREMLSCOPE_CACHE names another folder, and COREMLSCOPE_CACHE_LIMIT another
    limit, such as `500MB`.

    Raises:
        UsageError: The limit is invalid.
    """
    return ArtefactCache(_default_root(), _default_limit())


def _default_root() -> Path:
    chosen = os.environ.get(_ROOT_VARIABLE)
    return Path(chosen).expanduser() if chosen else cache_folder() / "compiled"


def _default_limit() -> int:
    chosen = os.environ.get(_LIMIT_VARIABLE)
    if not chosen:
        return _LIMIT_BYTES
    limit = parse_bytes(chosen)
    if limit is None:
        raise UsageError(f"{_LIMIT_VARIABLE} is {chosen!r}, which is not a size", "give a size such as 500MB")
    return limit


def is_temporary(path: Path) -> bool:
    """Returns whether a path is in the folder for temporary files."""
    return Path(tempfile.gettempdir()).resolve() in path.resolve().parents


class CacheEntry(msgspec.Struct, frozen=True):
    """A cached folder.

    Attributes:
        key: Its key.
        name: What it was created from.
        size_bytes: The total size of its files.
        used: When it was last used, in seconds since 1970.
    """

    key: str
    name: str
    size_bytes: int
    used: float


class ArtefactCache:
    """Cached folders, each created once and found by its key.

    A folder is sealed by its key and the digests of its files, which are verified whenever it is found. The
    cache is not used if it belongs to another user.

    Several processes may share a cache: a complete folder is renamed to its key atomically. When the cache
    exceeds its limit, the least recently used folders are removed.

    Args:
        root: The folder of the cache.
        limit_bytes: The maximum size of the cache.
    """

    def __init__(self, root: Path, limit_bytes: int = _LIMIT_BYTES) -> None:
        self.root = root
        self.limit_bytes = limit_bytes

    def key(self, source: Path, parts: Iterable[str]) -> str:
        """Returns a key for a file or folder; see `key_of_content`.

        The digests of large files are kept in the cache for as long as the files do not change.
        """
        return key_of_content(source, parts, self._digest)

    def _digest(self, path: Path) -> str:
        status = path.stat()
        if status.st_size < _LARGE_BYTES:
            return digest_of_file(path)
        identity = f"{path.resolve()}\0{status.st_ino}\0{status.st_size}\0{status.st_mtime_ns}"
        known = self.root / _DIGESTS / hashlib.sha256(os.fsencode(identity)).hexdigest()
        with contextlib.suppress(OSError):
            digest = known.read_text(encoding="ascii")
            if len(digest) == len(known.name):
                return digest
        digest = digest_of_file(path)
        # A file that was written just now may be written again without another time of modification.
        if time.time() - status.st_mtime > _SETTLED_S and not is_temporary(path):
            with contextlib.suppress(OSError, OutputError):
                known.parent.mkdir(parents=True, exist_ok=True)
                write_file(known, digest)
        return digest

    def find(self, key: str) -> Path | None:
        """Finds the folder of a key and marks it as used.

        Returns:
            The folder; None if the key is not cached, or its files are not those that were cached. Such a
            folder is removed.
        """
        folder = self.root / key
        if not self._is_own() or not folder.is_dir():  # one of another user may not be searched
            return None
        if not self._is_sealed(folder):
            self._discard(folder)
            return None
        with contextlib.suppress(OSError):
            os.utime(folder)
        return folder

    def add(self, key: str, make: Callable[[Path], None], name: str = "") -> Path:
        """Creates the folder of a key, unless another process creates it first.

        Args:
            key: The key.
            make: Called with the path of an empty folder, which it fills.
            name: What the folder is created from, for `entries`.

        Returns:
            The cached folder.

        Raises:
            OutputError: The cache cannot be written.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_own():
                raise PermissionError(errno.EPERM, "it belongs to another user")
            making = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.root))
        except OSError as error:
            raise OutputError(
                f"the cache {self.root} cannot be written: {error.strerror or error}",
                "make the folder writable, or move the model to one that is",
            ) from error
        target = self.root / key
        try:
            make(making)
            write_draft(making / _NAME, name)
            self._seal(making, key)
            place_folder(making, target)
        except OSError as error:
            raise OutputError(
                f"the cache {self.root} cannot be written: {error.strerror or error}",
                "free some space there, or name another folder in XDG_CACHE_HOME",
            ) from error
        finally:
            shutil.rmtree(making, ignore_errors=True)
        self._shrink(keep=target)
        return target

    def _is_own(self) -> bool:
        """True if only this user can write to the cache. Write permission of others is taken away."""
        if sys.platform == "win32":
            return True  # The user's folders are private by default.
        try:
            status = self.root.stat()
            if status.st_uid != os.geteuid():
                return False
            if status.st_mode & _OTHERS_WRITE:
                self.root.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS_WRITE)
        except OSError:
            return False
        return True

    def _seal(self, folder: Path, key: str) -> None:
        """Records the key and the digests of all files."""
        files = {path.name: digest_of_file(path) for path in folder.iterdir()}
        write_draft(folder / _SEAL, json.dumps({"key": key, "files": files}))

    def _is_sealed(self, folder: Path) -> bool:
        """True if a folder has the files that were sealed under its key."""
        try:
            seal = json.loads((folder / _SEAL).read_bytes())
            present = {path.name for path in folder.iterdir()} - {_SEAL}
            is_complete = seal["key"] == folder.name and present == set(seal["files"])
            return is_complete and all(
                self._digest(folder / name) == digest for name, digest in seal["files"].items()
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return False

    def remove(self, key: str) -> None:
        """Removes the folder of a key, if it is cached."""
        self._discard(self.root / key)

    def entries(self) -> list[CacheEntry]:
        """Returns the cached folders, the most recently used first."""
        entries = []
        for folder in self._folders():
            try:
                size = sum(path.stat().st_size for path in folder.iterdir())
                name = (folder / _NAME).read_text(encoding="utf-8")
                entries.append(CacheEntry(folder.name, name, size, folder.stat().st_mtime))
            except (OSError, UnicodeDecodeError):  # Another process removed it.
                continue
        return sorted(entries, key=lambda entry: entry.used, reverse=True)

    def clear(self) -> int:
        """Removes all folders, except those that are being created, and returns their number."""
        folders = list(self._folders())
        for folder in folders:
            self._discard(folder)
        shutil.rmtree(self.root / _DIGESTS, ignore_errors=True)
        self._remove_leftovers()
        return len(folders)

    def _folders(self) -> Iterator[Path]:
        """Yields the complete folders."""
        if self.root.is_dir():
            yield from (path for path in self.root.iterdir() if path.is_dir() and path.name[0] != ".")

    def _discard(self, folder: Path) -> None:
        """Removes a folder. It loses its key first, so that no process finds a part of it."""
        removing = folder.with_name(f"{_REMOVING}{os.urandom(8).hex()}")
        try:
            folder.rename(removing)
        except OSError:  # Another process removed it, or it is in use.
            return
        shutil.rmtree(removing, ignore_errors=True)

    def _remove_leftovers(self) -> None:
        """Removes the folders of processes that died, and digests of which there are too many."""
        for folder in self.root.glob(".*"):
            with contextlib.suppress(OSError):
                is_stale = time.time() - folder.stat().st_mtime > _STALE_S
                is_full = folder.name == _DIGESTS and len(list(folder.iterdir())) > _MAX_DIGESTS
                is_dead = folder.name.startswith(_UNFINISHED) and is_stale
                if folder.name.startswith(_REMOVING) or is_dead or is_full:
                    shutil.rmtree(folder, ignore_errors=True)

    def _shrink(self, keep: Path) -> None:
        self._remove_leftovers()
        entries = self.entries()
        total = sum(entry.size_bytes for entry in entries)
        for entry in reversed(entries):
            if total <= self.limit_bytes:
                return
            if entry.key != keep.name:
                self._discard(self.root / entry.key)
                total -= entry.size_bytes
