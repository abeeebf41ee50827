"""Compiled functions kept from one run of the program to the next."""

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
#: Unfinished folders older than this were left behind by a process that died.
_STALE_S = 24 * 3600.0


def key_of_files(root: Path, parts: Iterable[str]) -> str:
    """A key for what is made from a file or folder: changes when any file below it is replaced or written.

    Args:
        root: The file or folder; names, sizes and times of change count, contents are not read.
        parts: What else the result depends on.

    Raises:
        OSError: A file cannot be looked at.
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
    """A folder of folders, each made once and found again by its key.

    Several processes may use one cache: a folder appears under its key in one step, when it is complete. The
    ones unused for longest go when the limit is passed.

    Args:
        root: Where.
        limit_bytes: How much may be kept.
    """

    def __init__(self, root: Path, limit_bytes: int = _LIMIT_BYTES) -> None:
        self.root = root
        self.limit_bytes = limit_bytes

    def key(self, source: Path, parts: Iterable[str]) -> str:
        """The key of what is made from a model; see `key_of_files`."""
        return key_of_files(source, parts)

    def find(self, key: str) -> Path | None:
        """The folder kept under a key, if there is one; counts as a use of it."""
        folder = self.root / key
        if not folder.is_dir():
            return None
        with contextlib.suppress(OSError):
            os.utime(folder)
        return folder

    def add(self, key: str, make: Callable[[Path], None]) -> Path:
        """Makes what is to be kept under a key; where another process was faster, its result stands.

        Args:
            key: The key.
            make: Fills the empty folder that it is given.

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
        """Drops what is kept under a key, if anything is."""
        shutil.rmtree(self.root / key, ignore_errors=True)

    def _shrink(self, keep: Path) -> None:
        kept = []
        for folder in self.root.iterdir():
            try:
                changed = folder.stat().st_mtime
                size = sum(path.stat().st_size for path in folder.iterdir())
            except OSError:  # another process took it away
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
