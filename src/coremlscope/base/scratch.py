"""Temporary folders that are gone when their process is, or if it was killed, when the next one starts."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from coremlscope.base.writing import lock_file, open_draft

_PREFIX, _LOCK = "coremlscope-", ".lock"
#: The folder of this process with its lock, by process and where it is: a fork gets one of its own.
_folders: dict[tuple[int, Path], tuple[Path, IO[bytes]]] = {}


def new_scratch(prefix: str = "", suffix: str = "") -> Path:
    """Creates a folder in the temporary folder of this process.

    Raises:
        OSError: It cannot be created.
    """
    return Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=_own_folder()))


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Creates a folder in the temporary folder of this process, which can be removed before its end.

    Raises:
        OSError: It cannot be created.
    """
    return tempfile.TemporaryDirectory(dir=_own_folder(), ignore_cleanup_errors=True)


def _own_folder() -> Path:
    parent = Path(tempfile.gettempdir())
    own = os.getpid(), parent
    if own not in _folders or not _folders[own][0].exists():
        remove_abandoned(parent)
        _folders[own] = folder, lock = locked_folder(parent)
        atexit.register(_remove, own[0], folder, lock)
    return _folders[own][0]


def locked_folder(parent: Path) -> tuple[Path, IO[bytes]]:
    """Creates a folder with a lock that ends with its process.

    Raises:
        OSError: It cannot be created.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        with contextlib.suppress(FileNotFoundError):  # another process took it for abandoned
            lock = open_draft(folder / _LOCK)
            if lock_file(lock) is not False and (folder / _LOCK).exists():
                return folder, lock
            lock.close()


def remove_folder(folder: Path, lock: IO[bytes]) -> None:
    """Removes a locked folder."""
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()
    shutil.rmtree(folder, ignore_errors=True)  # the lock too, which Windows keeps while it is open


def remove_abandoned(parent: Path) -> None:
    """Removes folders of this user whose processes were killed."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or (hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()):
                continue
            lock = (folder / _LOCK).open("rb")
            if lock_file(lock):
                remove_folder(folder, lock)
            lock.close()


def _remove(owner: int, folder: Path, lock: IO[bytes]) -> None:
    if os.getpid() == owner:
        remove_folder(folder, lock)
