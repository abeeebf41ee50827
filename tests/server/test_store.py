"""What the store of profiles takes for a profile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coremlscope.errors import UsageError
from coremlscope.results.profile import write_profiles
from coremlscope.server.store import ProfileStore
from tests.support import foreign_files
from tests.support.profiles import small_profile


@pytest.fixture
def store(tmp_path: Path) -> ProfileStore:
    store = ProfileStore(tmp_path / "profiles")
    write_profiles(store.folder / "own.json", [small_profile()])
    return store


def _make_link(folder: Path, outside: Path) -> None:
    write_profiles(outside / "secret.json", [small_profile()])
    (folder / "other.json").symlink_to(outside / "secret.json")


def _make_report_of_links(folder: Path, outside: Path) -> None:
    report = foreign_files.write(outside, "small.mlperf/report.json")
    (folder / "other.mlperf").mkdir()
    (folder / "other.mlperf" / "report.json").symlink_to(report / "report.json")


def _make_linked_report(folder: Path, outside: Path) -> None:
    (folder / "other.mlperf").symlink_to(foreign_files.write(outside, "small.mlperf/report.json"))


def _make_pipe(folder: Path, outside: Path) -> None:
    os.mkfifo(folder / "other.json")


def _make_folder(folder: Path, outside: Path) -> None:
    (folder / "other.json").mkdir()


@pytest.mark.parametrize(
    "make", [_make_link, _make_report_of_links, _make_linked_report, _make_pipe, _make_folder]
)
def test_only_files_of_the_folder_itself_are_listed(
    store: ProfileStore, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "outside").mkdir()
    make(store.folder, tmp_path / "outside")
    assert [entry.id for entry in store.entries()] == ["own"]
    for id_ in ("other", "other.mlperf"):
        with pytest.raises(UsageError, match="unknown profile"):
            store.content(id_)


def test_a_report_of_xcode_is_listed(store: ProfileStore) -> None:
    foreign_files.write(store.folder, "small.mlperf/report.json")
    assert {entry.id for entry in store.entries() if not entry.problem} == {"own", "small.mlperf"}


def test_files_that_are_not_profiles_are_named_but_not_shown(store: ProfileStore) -> None:
    (store.folder / "keys.json").write_text('{"password": "hunter2"}', encoding="utf-8")
    (problem,) = [entry.problem for entry in store.entries() if entry.id == "keys"]
    assert "not a profile" in problem
    assert "hunter2" not in problem
    for show in (store.content, store.read):
        with pytest.raises(UsageError, match="not a profile"):
            show("keys")


def test_imported_json_is_served_as_a_profile(store: ProfileStore) -> None:
    path = foreign_files.write(store.folder, "compute_plan.json")
    assert b'"coremlscope.profile/2"' in store.content(path.stem)
