"""A cache of compiled functions on disk, shared by processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from coremlscope.errors import OutputError

__all__ = ["ArtefactCache", "key_of_files"]

_LIMIT_BYTES = 4 << 30
_UNFINISHED = ".making-"
#: Older unfinished folders are leftovers of a process that died.
_STALE_S = 24 * 3600.0


def key_of_files(root: Path, parts: Iterable[str]) -> str:
    """A cache key that changes when a file below `root` is replaced or written.

    Args:
        root: The file or folder. The key depends on names, sizes and modification times; contents are not
            read.
        parts: Other values that the key depends on.

    Raises:
        OSError: A file's status cannot be read.
    """
    digest = hashlib.sha256(str(root.resolve()).encode())
    files = sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else [root]
    for path in files:
        status = path.stat()
        digest.update(f"\0{path}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    for part in parts:
        digest.update(f"\0{part}".encode())
    return digest.hexdigest()[:32]


class ArtefactCache:
    """Cached folders, each created once and found by its key.

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
        """The cache key for a source; see `key_of_files`."""
        return key_of_files(source, parts)

    def find(self, key: str) -> Path | None:
        """Finds the folder of a key and marks it as used; None if the key is not cached."""
        folder = self.root / key
        if not folder.is_dir():
            return None
        with contextlib.suppress(OSError):
            os.utime(folder)
        return folder

    def add(self, key: str, make: Callable[[Path], None]) -> Path:
        """Creates the folder of a key, unless another process creates it first.

        Args:
            key: The key.
            make: Called with the path of an empty folder, which it fills.

        Returns:
            The cached folder.

        Raises:
            OutputError: The cache cannot be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            making = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.root))
        except OSError as error:
            raise OutputError(
                f"the cache {self.root} cannot be written: {error.strerror or error}",
                "make the folder writable, or move the model to one that is",
            ) from error
        target = self.root / key
        try:
            make(making)
            try:
                making.rename(target)
            except OSError as error:
                if not target.is_dir():
                    raise OutputError(f"the cache {self.root} cannot be written: {error.strerror}") from error
        finally:
            shutil.rmtree(making, ignore_errors=True)
        self._shrink(keep=target)
        return target

    def remove(self, key: str) -> None:
        """Removes the folder of a key, if it is cached."""
        shutil.rmtree(self.root / key, ignore_errors=True)

    def _shrink(self, keep: Path) -> None:
        kept = []
        for folder in self.root.iterdir():
            try:
                changed = folder.stat().st_mtime
                size = sum(path.stat().st_size for path in folder.iterdir())
            except OSError:  # Another process removed it.
                continue
            if not folder.name.startswith("."):
                kept.append((changed, size, folder))
            elif folder.name.startswith(_UNFINISHED) and time.time() - changed > _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)
        total = sum(size for _, size, _ in kept)
        for _, size, folder in sorted(kept, key=lambda entry: entry[0]):
            if total <= self.limit_bytes:
                return
            if folder != keep:
                shutil.rmtree(folder, ignore_errors=True)
                total -= size
