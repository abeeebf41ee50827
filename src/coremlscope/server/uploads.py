"""The folder of uploaded files that are not yet profiled or imported."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from coremlscope.errors import OutputError
from coremlscope.writing import lock_file, open_draft

__all__ = ["Upload", "Uploads"]

_PREFIX, _LOCK = "coremlscope-serve-", ".lock"
#: Disk space that uploads must leave free, in bytes.
_SPARE_BYTES = 256 << 20


class Upload:
    """A file that is being received, alone in a folder.

    Args:
        path: The file.
        size: Its size in bytes.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.missing, self.is_kept = path, size, False
        self._file = open_draft(path)

    def write(self, chunk: bytes) -> None:
        """Appends to the file.

        Raises:
            OutputError: The disk is full.
        """
        try:
            self._file.write(chunk)
            self.missing -= len(chunk)
            if self.missing <= 0:
                self._file.close()
        except OSError as error:
            raise OutputError(
                f"the upload cannot be saved: {error.strerror or error}", "free some space"
            ) from None

    def keep(self) -> None:
        """Leaves the file where it is; its folder is removed by whoever uses it."""
        self.is_kept = True

    def close(self) -> None:
        """Closes the file; removes its folder unless it is kept."""
        with contextlib.suppress(OSError):
            self._file.close()
        if not self.is_kept:
            shutil.rmtree(self.path.parent, ignore_errors=True)


class Uploads:
    """A temporary folder, which the next server removes if this one is killed.

    Args:
        parent: Where to create it; None for the system's folder of temporary files.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        _remove_abandoned(parent)
        self.folder, self._lock = _locked_folder(parent)
        self._running: set[Upload] = set()
        self._changing = threading.Lock()

    @contextlib.contextmanager
    def receive(self, name: str, size: int) -> Iterator[Upload]:
        """Reserves space for a file, which is removed when the context ends unless it is kept.

        Args:
            name: Its name, which must be safe to use.
            size: Its size in bytes.

        Raises:
            OutputError: There is not enough space for it and for what other uploads have yet to receive.
        """
        with self._changing:
            reserved = sum(upload.missing for upload in self._running) + _SPARE_BYTES
            try:
                if size + reserved > shutil.disk_usage(self.folder).free:
                    raise OutputError("the disk is too full for this file", "free some space")
                upload = Upload(self.new_folder() / name, size)
            except OSError as error:
                raise OutputError(
                    f"the upload cannot be saved: {error.strerror or error}", "free some space"
                ) from None
            self._running.add(upload)
        try:
            yield upload
        finally:
            with self._changing:
                self._running.discard(upload)
            upload.close()

    def new_folder(self) -> Path:
        """Creates a folder for the files of a job.

        Raises:
            OutputError: It cannot be created.
        """
        try:
            return Path(tempfile.mkdtemp(dir=self.folder))
        except OSError as error:
            raise OutputError(
                f"the upload cannot be saved: {error.strerror or error}", "free some space"
            ) from None

    def close(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # the lock too, which Windows keeps while it is open


def _locked_folder(parent: Path) -> tuple[Path, IO[bytes]]:
    """Creates a folder with a lock that ends with its process."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        with contextlib.suppress(FileNotFoundError):  # another server took it for abandoned
            lock = open_draft(folder / _LOCK)
            if lock_file(lock) is not False and (folder / _LOCK).exists():
                return folder, lock
            lock.close()


def _remove_abandoned(parent: Path) -> None:
    """Removes folders of this user whose servers were killed."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or (hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()):
                continue
            with (folder / _LOCK).open("rb") as lock:
                if not lock_file(lock):
                    continue
                shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(folder, ignore_errors=True)  # the lock too, which Windows keeps while it is open
