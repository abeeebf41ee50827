"""The folder of uploaded files that are not yet profiled or imported."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from coremlscope.base.errors import OutputError
from coremlscope.base.writing import lock_file, open_draft

_PREFIX, _LOCK = "coremlscope-serve-", ".lock"
#: Disk space that an upload must leave free, in bytes.
_SPARE_BYTES = 256 << 20


class Uploads:
    """A temporary folder, which the next server removes if this one is killed.

    Args:
        parent: Where to create it; None for the system's folder of temporary files.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        _remove_abandoned(parent)
        self.folder, self._lock = _locked_folder(parent)

    @contextlib.contextmanager
    def new_job(self, size: int = 0) -> Iterator[Path]:
        """Yields a folder for the files of a job, which removes it; after an error it is removed here.

        Args:
            size: The size of what is received, in bytes.

        Raises:
            OutputError: There is not enough space, or a file cannot be written.
        """
        try:
            if size + _SPARE_BYTES > shutil.disk_usage(self.folder).free:
                raise OutputError("the disk is too full for this file", "free some space")
            folder = self.new_folder()
            try:
                yield folder
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        except OSError as error:
            raise _not_saved(error) from None

    def new_folder(self) -> Path:
        """Creates a folder.

        Raises:
            OutputError: It cannot be created.
        """
        try:
            return Path(tempfile.mkdtemp(dir=self.folder))
        except OSError as error:
            raise _not_saved(error) from None

    def close(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # the lock too, which Windows keeps while it is open


def _not_saved(error: OSError) -> OutputError:
    return OutputError(f"the upload cannot be saved: {error.strerror or error}", "free some space")


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
