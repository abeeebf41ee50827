"""Folders of results of sweeps on the local page: their list, pages, and what streams while they run."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.results.profile import write_profiles
from coremlscope.server import sweeps
from coremlscope.server.limits import ServerLimits
from coremlscope.server.server import Address, serve
from coremlscope.server.sweeps import SweepFolders
from coremlscope.studies.sweep.rows import Row
from coremlscope.studies.sweep.store import ResultStore
from tests.support.profiles import small_profile


def _row(number: int, model: str = "zoo/net.mlpackage") -> Row:
    return Row(
        key=f"{number}",
        origin="estimated",
        model=model,
        device="M1",
        estimated_s=1 / (1 + number),
        made_at=f"2026-01-01T00:00:{number:02}",
    )


def _write(folder: Path, *rows: Row) -> None:
    with ResultStore(folder).open_writer() as writer:
        writer.add(rows)


def test_folders_of_results_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "_NEW_S", 0.0)
    profiles, named = tmp_path / "profiles", tmp_path / "other" / "night"
    _write(profiles / "night", _row(0), _row(1))
    (profiles / "empty").mkdir()
    (profiles / "link").symlink_to(profiles / "night")
    folders = SweepFolders(profiles, [named])
    assert [(one.id, one.rows, one.is_running) for one in folders.entries()] == [("night", 2, False)]
    before = folders.revision()
    with ResultStore(named).open_writer() as writer:
        writer.add([_row(0)])
        writer.add([_row(1), _row(2)])
        found = {one.id: (one.folder, one.rows, one.is_running) for one in folders.entries()}
        assert found == {
            "night": (str(named), 3, True),
            "night-2": (str(profiles / "night"), 2, False),
        }
    assert folders.revision() != before
    assert [(one.rows, one.is_running) for one in folders.entries() if one.id == "night"] == [(3, False)]


def test_a_killed_sweep_is_not_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "_NEW_S", 0.0)
    (tmp_path / "results-1-0000.jsonl").write_bytes(b'[{"key":"a","origin":"estimated","model":"m"}]\n')
    (found,) = SweepFolders(tmp_path).entries()
    assert (found.rows, found.is_running) == (1, False)


def test_pipes_and_damaged_files_stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "piped").mkdir()
    os.mkfifo(tmp_path / "piped" / "results-1.jsonl")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "results-1.parquet").write_bytes(b"PAR1")
    folders = SweepFolders(tmp_path)
    assert [(one.id, one.rows) for one in folders.entries()] == [("damaged", 0)]
    with pytest.raises(UsageError, match=r"results-1\.parquet"):
        folders.table("damaged", {})
    with pytest.raises(UsageError, match="no such folder"):
        folders.table("piped", {})


def test_rows_keep_their_places_and_lead_to_reports(tmp_path: Path) -> None:
    folder = tmp_path / "night"
    _write(folder, _row(0), _row(3, "zoo/other.mlpackage"))
    folders = SweepFolders(tmp_path)
    table = folders.table("night", {"net.mlpackage": "../profiles/net"})
    columns = {column["name"]: column["values"] for column in table["columns"]}
    assert columns["estimated_s"] == (1.0, 0.25), "in the order in which they were made"
    assert columns["report"] == ("../profiles/net", None)
    assert "report" not in {column["name"] for column in folders.table("night", {})["columns"]}


def test_of_very_many_results_the_main_columns_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path / "night", *map(_row, range(4)))
    monkeypatch.setattr("coremlscope.studies.sweep.table._MOST_VALUES", 100)
    table = SweepFolders(tmp_path).table("night", {})
    names = {column["name"] for column in table["columns"]}
    assert (table["rows"], "estimated_s" in names, "origin" in names) == (4, True, False)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    monkeypatch.setattr("coremlscope.server.app._RESULTS_S", 0.05)
    folder = tmp_path / "night & day"
    _write(folder, _row(0))
    write_profiles(tmp_path / "saved.json", [small_profile()])
    with serve(tmp_path, Address(), ServerLimits(watchers=1)) as (url, answer):
        thread = threading.Thread(target=answer)
        thread.start()
        yield url, folder
    thread.join(10)
    assert not thread.is_alive(), "an open stream does not keep the server"


@contextlib.contextmanager
def _opened(url: str, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=20)
    with contextlib.closing(connection):
        connection.request("GET", parts.path + path, headers=headers)
        yield connection.getresponse()


def _next(events: http.client.HTTPResponse) -> int:
    """Returns the number of rows of the next results."""
    while not (line := events.readline()).startswith(b"data: "):
        assert line
    rows: int = json.loads(line.removeprefix(b"data: "))["rows"]
    return rows


def test_the_page_of_a_sweep_changes_while_it_runs(served: tuple[str, Path]) -> None:
    url, folder = served
    with _opened(url, "state") as state:
        assert [one["id"] for one in json.load(state)["sweeps"]] == ["night & day"]
    with _opened(url, "sweeps/night%20%26%20day") as page:
        content = page.read().decode()
    assert '"live":"night%20%26%20day/events"' in content
    assert "connect-src 'self'" in content
    with (
        ResultStore(folder).open_writer() as writer,
        _opened(url, "sweeps/night%20%26%20day/events") as events,
    ):
        assert events.getheader("content-type", "").startswith("text/event-stream")
        assert _next(events) == 1
        writer.add([_row(1), _row(2)])
        assert _next(events) == 3
        with _opened(url, "sweeps/night%20%26%20day/events") as other:
            assert other.status == 503, "pages that listen are counted"
        for path, headers, status in (
            ("sweeps/night%20%26%20day/events", {"Host": "evil.example"}, 403),
            ("sweeps/..%2Fnight/events", {}, 404),
            ("sweeps/other", {}, 400),
        ):
            with _opened(url, path, **headers) as refused:
                assert refused.status == status
        with _opened(url.rstrip("/") + "x/", "sweeps/night%20%26%20day/events") as refused:
            assert refused.status == 404
