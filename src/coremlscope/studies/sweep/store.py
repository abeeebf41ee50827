"""The folder of results: Parquet files of many writers, and the journals of those that are at work.

A writer appends each finished job to a journal of its own, as one line. After some thousand rows, and at
the end, it writes them as a Parquet file of the same name, and removes the journal. So a killed writer loses
nothing that it had got; the next one completes what it left. Rows of the same key are equal in content, and
readers take one of them.
"""

from __future__ import annotations

import contextlib
import io
import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coremlscope.base.errors import MissingDependencyError, OutputError, UsageError
from coremlscope.base.writing import check_folder, lock_file, open_journal, write_file
from coremlscope.results.encoding import plain
from coremlscope.studies.sweep.rows import Row, arrow_schema, check_arrow, require_arrow

if TYPE_CHECKING:
    import pyarrow as pa

#: The folder of results where none is named.
RESULTS = "sweep-results"
_PREFIX, _PARQUET, _JOURNAL = "results-", ".parquet", ".jsonl"
#: First bytes of each row of a journal.
_ROW = b'{"key":'
#: Rows after which a journal becomes a Parquet file.
_ROWS = 20_000


class ResultStore:
    """A folder of results.

    Args:
        folder: The folder; it need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def parts(self) -> list[Path]:
        """Returns the Parquet files, in the order of their names."""
        return sorted(self.folder.glob(f"{_PREFIX}*{_PARQUET}"))

    def journals(self) -> list[Path]:
        """Returns the journals that are not part of a Parquet file yet."""
        found = sorted(self.folder.glob(f"{_PREFIX}*{_JOURNAL}"))
        return [path for path in found if not path.with_suffix(_PARQUET).exists()]

    def journalled(self) -> pa.Table:
        """Returns the rows of journals, those of writers at work included."""
        arrow = require_arrow()
        rows = [row for path in self.journals() for row in read_journal(path)]
        return arrow.Table.from_pylist(rows, schema=arrow_schema())

    def keys(self) -> dict[str, bool]:
        """Returns the keys of all results, each with whether it is a failure.

        Raises:
            UsageError: A file is damaged.
        """
        found: dict[str, bool] = {}
        columns = ["key", "failure"]
        tables = [self._read(path, columns) for path in self.parts()]
        rows = [row for table in tables for row in table.to_pylist()]
        for row in [*rows, *(row for path in self.journals() for row in read_journal(path))]:
            found[row["key"]] = bool(row["failure"]) and found.get(row["key"], True)
        return found

    def table(self) -> pa.Table:
        """Returns one row for each key, those of writers at work included, in the order of their making.

        Failures give way to results, older rows to newer ones.

        Raises:
            UsageError: A file is damaged.
        """
        arrow = require_arrow()
        read = [self._read(path, None) for path in self.parts()]
        whole = arrow.concat_tables([*read, self.journalled()], promote_options="default")
        taken: dict[str, tuple[tuple[bool, str, str], int]] = {}
        columns = (whole[name].to_pylist() for name in ("key", "failure", "made_at", "labelled_at"))
        for place, (key, failure, made_at, labelled_at) in enumerate(zip(*columns, strict=True)):
            rank = not failure, made_at, labelled_at or ""
            if key not in taken or rank >= taken[key][0]:
                taken[key] = rank, place
        kept = sorted((rank[1], key, place) for key, (rank, place) in taken.items())
        return whole.take(arrow.array([place for *_, place in kept], "int64"))

    def rows(self, keys: Collection[str]) -> dict[str, dict[str, Any]]:
        """Returns the rows of some results by key.

        Raises:
            UsageError: A file is damaged.
        """
        table = self.table()
        places = [place for place, key in enumerate(table["key"].to_pylist()) if key in keys]
        found = table.take(places).to_pylist() if places else []
        return {
            row["key"]: {**row, **{name: dict(row[name]) for name in ("labels", "numbers")}} for row in found
        }

    def complete_abandoned(self) -> None:
        """Writes the journals of writers that were killed as Parquet files.

        Raises:
            OutputError: A file cannot be written.
        """
        for path in sorted(self.folder.glob(f"{_PREFIX}*{_JOURNAL}")):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                if lock_file(file):
                    _complete(path, list(read_journal(path)))

    def open_writer(self) -> Writer:
        """Returns what appends results, after those of killed writers were completed.

        Raises:
            OutputError: The folder cannot be written.
            MissingDependencyError: pyarrow is not installed.
        """
        check_arrow()
        check_folder(self.folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"{self.folder} cannot be created: {error.strerror or error}", "name another folder"
            ) from None
        self.complete_abandoned()
        return Writer(self.folder)

    def _read(self, path: Path, columns: list[str] | None) -> pa.Table:
        arrow = require_arrow()
        try:
            return arrow.parquet.read_table(path, columns=columns)
        except (arrow.ArrowException, OSError, KeyError) as error:
            raise UsageError(
                f"{path} is damaged: {str(error).splitlines()[0]}",
                "remove the file; its results are made again",
            ) from None


class Writer:
    """Appends results to a folder; a context manager.

    Args:
        folder: The folder, which exists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"{_PREFIX}{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(6)}"
        self._count = 0
        self._rows: list[dict[str, Any]] = []
        self._open()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, rows: Iterable[Row | Mapping[str, Any]]) -> None:
        """Appends the rows of a job; either all of them or none are read later.

        Raises:
            OutputError: They cannot be written.
        """
        added = [row if isinstance(row, dict) else plain(row) for row in rows]
        line = memoryview(msgspec.json.encode(added) + b"\n")
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            raise OutputError(
                f"{self._path} cannot be written: {error.strerror or error}", "free some space"
            ) from None
        self._rows += added
        if len(self._rows) >= _ROWS:
            self._turn()
            self._open()

    def close(self) -> None:
        """Writes the journal as a Parquet file."""
        self._turn()

    def _open(self) -> None:
        while True:
            self._path = self._folder / f"{self._name}-{self._count:04}{_JOURNAL}"
            self._count += 1
            self._file = open_journal(self._path)
            # Another writer may take it for abandoned before it is locked.
            if lock_file(self._file) is not False and self._path.exists():
                return
            self._file.close()

    def _turn(self) -> None:
        _complete(self._path, self._rows)
        self._file.close()
        self._rows = []


def is_journal(path: Path) -> bool:
    """Returns whether a file of results is a journal."""
    return path.suffix == _JOURNAL


def count_rows(path: Path) -> int:
    """Returns about how many rows a file of results has, without reading them; 0 for a damaged one."""
    with contextlib.suppress(MissingDependencyError, OSError):
        if is_journal(path):
            return path.read_bytes().count(_ROW)
        arrow = require_arrow()
        with contextlib.suppress(arrow.ArrowException):
            count: int = arrow.parquet.read_metadata(path).num_rows
            return count
    return 0


def _complete(journal: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows as the Parquet file of their journal, which is removed then."""
    target = journal.with_suffix(_PARQUET)
    if rows and not target.exists():
        write_file(target, parquet_bytes(rows))
    with contextlib.suppress(OSError):
        journal.unlink()


def parquet_bytes(rows: Iterable[Row | Mapping[str, Any]]) -> bytes:
    """Returns rows as a Parquet file.

    Raises:
        MissingDependencyError: pyarrow is not installed.
    """
    arrow = require_arrow()
    listed = [plain(row) if isinstance(row, Row) else row for row in rows]
    return table_bytes(arrow.Table.from_pylist(listed, schema=arrow_schema()))


def table_bytes(table: pa.Table) -> bytes:
    """Returns a table as a Parquet file."""
    buffer = io.BytesIO()
    require_arrow().parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of a journal; a last line that was not finished is left out."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            with contextlib.suppress(msgspec.DecodeError):
                if line.endswith(b"\n"):
                    yield from map(plain, msgspec.json.decode(line, type=list[Row]))
