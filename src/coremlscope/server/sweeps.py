"""Folders of results of sweeps, whose pages change while the sweeps run."""

from __future__ import annotations

import contextlib
import itertools
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.escaping import path_text
from coremlscope.base.writing import lock_file
from coremlscope.studies.sweep.store import ResultStore, count_rows, is_journal
from coremlscope.studies.sweep.table import to_result_table

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds that a journal must exist before its lock is looked at; a writer locks it right after creating it.
_NEW_S = 2.0


class SweepFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with results of sweeps.

    Attributes:
        id: Its name, which is used in addresses; a number is added to equal names.
        folder: Its path.
        rows: Number of rows in its files; results that were made or labelled again have several.
        changed_at: When a file changed last, UTC, ISO 8601.
        is_running: Whether a sweep writes it now.
    """

    id: str
    folder: str
    rows: int
    changed_at: str
    is_running: bool


class SweepFolders:
    """The folders of results that a server shows; safe to use from several threads.

    Args:
        place: A folder that may hold results, and whose folders may.
        named: Further folders, which need not exist yet.
    """

    def __init__(self, place: Path, named: Sequence[Path] = ()) -> None:
        self._place, self._named = place, tuple(named)
        self._counted: dict[Path, tuple[tuple[int, int], int]] = {}

    def entries(self) -> list[SweepFolder]:
        """Returns the folders with results, those that changed last first."""
        found = [
            SweepFolder(
                id=id_,
                folder=path_text(folder),
                rows=self._count(files),
                changed_at=_moment(files),
                is_running=any(map(_is_written, files)),
            )
            for id_, folder, files in self._found()
        ]
        return sorted(found, key=lambda entry: entry.changed_at, reverse=True)

    def revision(self, id_: str | None = None) -> int:
        """Returns a number that changes with the files of a folder, or of all, and with who writes them."""
        found = (
            (one, tuple(files.items()), any(map(_is_written, files)))
            for one, _, files in self._found()
            if id_ is None or id_ == one
        )
        return hash(tuple(found))

    def table(self, id_: str, reports: Mapping[str, str]) -> dict[str, Any]:
        """Returns the results of a folder as plain values for a page, in the order in which they were made.

        Args:
            id_: The folder.
            reports: Addresses of reports by the file name of the model.

        Raises:
            UsageError: The folder is unknown, a file is damaged, or there is nothing to show.
            MissingDependencyError: pyarrow is not installed.
        """
        for one, folder, _ in self._found():
            if one == id_:
                found = ResultStore(folder).table()
                return to_result_table(_with_reports(found, reports)).to_json()
        raise UsageError("there is no such folder of results", "go back to the list of profiles")

    def _found(self) -> Iterator[tuple[str, Path, _Files]]:
        """Yields ids, folders and their files."""
        ids: set[str] = set()
        for folder in dict.fromkeys([*self._named, self._place, *_folders(self._place)]):
            files = _files(folder)
            if files:
                name = path_text(Path(folder.resolve().name)) or "results"
                numbered = (f"{name}-{number}" for number in itertools.count(2))
                id_ = name if name not in ids else next(one for one in numbered if one not in ids)
                ids.add(id_)
                yield id_, folder, files

    def _count(self, files: _Files) -> int:
        """Returns the number of rows in files; only new or changed files are read."""
        for path, version in files.items():
            if self._counted.get(path, (None, 0))[0] != version:
                self._counted[path] = version, count_rows(path)
        return sum(self._counted[path][1] for path in files)


#: Files of results, each with its time and size.
_Files = Mapping[Path, tuple[int, int]]


def _folders(place: Path) -> list[Path]:
    """Returns the folders in a folder, in the order of their names; links are left out."""
    try:
        return sorted(path for path in place.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def _files(folder: Path) -> _Files:
    """Returns the files of results; none where one is no regular file, since a pipe would be read forever."""
    found: dict[Path, tuple[int, int]] = {}
    store = ResultStore(folder)
    for path in (*store.parts(), *store.journals()):
        with contextlib.suppress(OSError):  # a journal becomes a Parquet file meanwhile
            state = path.lstat()
            if not stat.S_ISREG(state.st_mode):
                return {}
            found[path] = state.st_mtime_ns, state.st_size
    return found


def _moment(files: _Files) -> str:
    seconds = max(changed for changed, _ in files.values()) // 10**9
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_written(path: Path) -> bool:
    """Returns whether a writer is at work on a journal."""
    with contextlib.suppress(OSError):
        if is_journal(path) and time.time() - path.stat().st_ctime < _NEW_S:
            return True
        if is_journal(path):
            with path.open("rb") as file:
                return lock_file(file) is False
    return False


def _with_reports(table: pa.Table, reports: Mapping[str, str]) -> pa.Table:
    """Adds the address of the report of each model, where there is one."""
    from pyarrow import array

    found = [reports.get(PurePath(str(model)).name) for model in table.column("model").to_pylist()]
    return table.append_column("report", array(found, "string")) if any(found) else table
