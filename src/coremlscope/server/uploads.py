"""The models that pages sent, and what is written for requests."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from coremlscope.base.errors import OutputError, UsageError
from coremlscope.base.scratch import locked_folder, remove_abandoned, remove_folder

#: Disk space that an upload must leave free, in bytes.
_SPARE_BYTES = 256 << 20
#: The longest part of a path, and the most parts, of a file in a folder that is sent.
_LONGEST_PART, _MOST_PARTS = 255, 32


class Uploads:
    """A temporary folder, which the next server removes if this one is killed.

    Args:
        most_bytes: Maximum size of the models; beyond it the oldest ones are removed.
        parent: Where to create it; None for the system's folder of temporary files.
    """

    def __init__(self, most_bytes: int, parent: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        remove_abandoned(parent)
        self.folder, self._lock = locked_folder(parent)
        self._most_bytes = most_bytes
        self._models: dict[str, int] = {}
        self._changing = threading.Lock()

    @contextlib.contextmanager
    def new_model(self, size: int) -> Iterator[Path]:
        """Yields a folder for the files of a model, whose name is its id; after an error it is removed.

        Args:
            size: The size of what is received, in bytes.

        Raises:
            OutputError: There is not enough space, or a file cannot be written.
        """
        try:
            if size + _SPARE_BYTES > shutil.disk_usage(self.folder).free:
                raise OutputError("the disk is too full for this file", "free some space")
            folder = Path(tempfile.mkdtemp(dir=self.folder))
            try:
                yield folder
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        except OSError as error:
            raise _not_saved(error) from None
        with self._changing:
            self._models[folder.name] = size
            while sum(self._models.values()) > self._most_bytes and len(self._models) > 1:
                oldest = next(iter(self._models))
                del self._models[oldest]
                shutil.rmtree(self.folder / oldest, ignore_errors=True)

    def model(self, id_: str) -> Path:
        """Returns the folder of a model.

        Raises:
            UsageError: It is not here.
        """
        with self._changing:
            if id_ not in self._models:
                raise UsageError("the model is no longer on the server", "open it again")
            return self.folder / id_

    @contextlib.contextmanager
    def new_folder(self) -> Iterator[Path]:
        """Yields a folder, and removes it.

        Raises:
            OutputError: A file cannot be written.
        """
        try:
            with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder:
                yield Path(folder)
        except OSError as error:
            raise _not_saved(error) from None

    def close(self) -> None:
        """Removes the folder."""
        remove_folder(self.folder, self._lock)


def check_inside(path: str) -> None:
    """Checks that a path of a stranger stays inside the folder that it is relative to.

    Raises:
        UsageError: It does not, or no file can have it.
    """
    parts = path.split("/")
    is_inside = all(part not in ("", ".", "..") and len(part.encode()) <= _LONGEST_PART for part in parts)
    if not is_inside or len(parts) > _MOST_PARTS or any(sign in "\\:" or sign < " " for sign in path):
        raise UsageError(f"{path[:80]!r} is not the name of a file", "rename it")


def _not_saved(error: OSError) -> OutputError:
    return OutputError(f"the upload cannot be saved: {error.strerror or error}", "free some space")
