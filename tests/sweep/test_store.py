"""The folder of results: what is kept when writers are killed, and what readers see."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from coremlscope.base.errors import UsageError
from coremlscope.studies.sweep.rows import Row, arrow_schema
from coremlscope.studies.sweep.store import ResultStore


def row(key: str, **values: object) -> Row:
    return Row(key=key, origin="estimated", model="m", **values)  # type: ignore[arg-type]


def keys(folder: Path) -> list[str]:
    return sorted(ResultStore(folder).table()["key"].to_pylist())


def test_rows_are_parquet_of_the_one_schema_when_a_writer_ends(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "new" / "folder")
    with store.open_writer() as writer:
        writer.add([row("a", labels={"family": "vit"}, numbers={"accuracy": 81.5}, estimated_s=0.25)])
    (part,) = store.parts()
    table = pq.read_table(part)
    assert table.schema.equals(arrow_schema())
    assert table.schema.metadata == arrow_schema().metadata
    assert table.to_pylist()[0]["numbers"] == [("accuracy", 81.5)]
    assert store.journals() == []
    assert not list(store.folder.glob("*.jsonl"))


def test_readers_see_what_a_writer_at_work_has_added(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    with store.open_writer() as writer:
        writer.add([row("a")])
        assert keys(tmp_path) == ["a"]
        store.complete_abandoned()
        writer.add([row("b")])
        assert store.parts() == [], "the journal of a writer at work is left alone"
    assert keys(tmp_path) == ["a", "b"]


_KILLED = """
import os, sys
from pathlib import Path
from coremlscope.studies.sweep.rows import Row
from coremlscope.studies.sweep.store import ResultStore
writer = ResultStore(Path(sys.argv[1])).open_writer()
for key in "abc":
    writer.add([Row(key=key, origin="measured", model="m"), Row(key=key * 2, origin="measured", model="m")])
writer._file.write(b'[{"key": "torn"')
os.kill(os.getpid(), 9)
"""


def test_a_killed_writer_loses_nothing(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False).returncode == -9
    store = ResultStore(tmp_path)
    expected = ["a", "aa", "b", "bb", "c", "cc"]
    assert keys(tmp_path) == expected, "the journal is read as it is"
    store.open_writer().close()
    assert keys(tmp_path) == expected
    assert len(store.parts()) == 1
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_writer_that_was_killed_between_its_two_files_doubles_nothing(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    with store.open_writer() as writer:
        writer.add([row("a")])
        journal = next(tmp_path.glob("*.jsonl"))
        left = journal.read_bytes()
    journal.write_bytes(left)
    assert keys(tmp_path) == ["a"]
    assert store.journals() == []
    store.open_writer().close()
    assert not list(tmp_path.glob("*.jsonl"))
    assert keys(tmp_path) == ["a"]


def test_of_equal_keys_a_result_wins_over_a_failure_and_the_newer_one_over_the_older(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    for first, second in ((0, 1), (1, 0)):
        rows = [
            row("a", made_at="2026-01-01T00:00:00Z", estimated_s=2.0),
            row("a", made_at="2026-01-02T00:00:00Z", failure="it was killed"),
            row("b", made_at="2026-01-01T00:00:00Z", estimated_s=2.0),
            row("b", made_at="2026-01-02T00:00:00Z", estimated_s=3.0),
        ]
        with store.open_writer() as writer:
            writer.add(rows[first::2])
        with store.open_writer() as writer:
            writer.add(rows[second::2])
        found = store.table().select(["key", "estimated_s", "failure"]).to_pylist()
        assert [tuple(one.values()) for one in found] == [("a", 2.0, ""), ("b", 3.0, "")]
    assert store.keys() == {"a": False, "b": False}


def test_many_writers_append_at_the_same_time(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    writers = [store.open_writer() for _ in range(5)]
    for index, writer in enumerate(writers):
        writer.add([row(f"{index}")])
    for writer in writers:
        writer.close()
    assert keys(tmp_path) == list("01234")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "results-x.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match=r"results-x\.parquet is damaged"):
        ResultStore(tmp_path).keys()
    with pytest.raises(UsageError, match=r"results-x\.parquet is damaged"):
        ResultStore(tmp_path).table()


def test_a_damaged_line_of_a_journal_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "results-x.jsonl").write_bytes(
        b'{"key"\n7\n[1, {"key": 3}]\n\xff\n[{"key": "a", "origin": "measured", "model": "m"}]\n'
    )
    assert ResultStore(tmp_path).keys() == {"a": False}


@pytest.mark.skipif(os.name == "nt", reason="Windows locks in another way")
def test_writers_share_a_folder_on_a_disk_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", refuse)
    store = ResultStore(tmp_path / "results")
    with store.open_writer() as first:
        first.add([row("a")])
        with store.open_writer() as second:  # It must not take the first one's journal for abandoned.
            second.add([row("b")])
        first.add([row("c")])
    assert set(store.keys()) == {"a", "b", "c"}
    assert len(list(store.folder.iterdir())) == 2
