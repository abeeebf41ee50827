"""Files that the store of profiles accepts as profiles."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec.structs
import pytest

from coremlscope.base.errors import EngineError, OutputError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.measure.settings import not_measured
from coremlscope.results.measurement import EarlyEnd, StageTiming
from coremlscope.results.profile import write_profiles
from coremlscope.server.store import ProfileStore
from tests.support import foreign_files
from tests.support.profiles import small_measurement, small_profile


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


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text("{}")
    with pytest.raises(OutputError, match="is a file, and profiles are in a folder") as caught:
        ProfileStore(tmp_path / "profile.json")
    assert caught.value.hint == f"name its folder, {tmp_path}, or another one"


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


def test_profiles_are_renamed_with_their_tags(store: ProfileStore) -> None:
    store.tag("own", ["slow", "v2", "slow"])
    assert store.rename("own", "../after the fix.json") == "after-the-fix"
    (entry,) = store.entries()
    assert (entry.id, entry.tags) == ("after-the-fix", ("slow", "v2"))
    assert [path.name for path in store.folder.iterdir() if path.name[0] != "."] == ["after-the-fix.json"]
    assert store.rename("after-the-fix", "after-the-fix") == "after-the-fix"


def test_a_name_that_is_taken_is_refused(store: ProfileStore) -> None:
    write_profiles(store.folder / "other.json", [small_profile()])
    before = (store.folder / "other.json").read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        store.rename("own", "other")
    assert {entry.id for entry in store.entries()} == {"own", "other"}
    assert (store.folder / "other.json").read_bytes() == before


def test_imported_files_keep_their_suffix(store: ProfileStore) -> None:
    foreign_files.write(store.folder, "small.mlperf/report.json")
    foreign_files.write(store.folder, "small.analytics.mil")
    assert store.rename("small.mlperf", "a") == "a.mlperf"
    assert store.rename("small.analytics.mil", "b") == "b.analytics.mil"
    assert {entry.id for entry in store.entries() if not entry.problem} == {
        "own",
        "a.mlperf",
        "b.analytics.mil",
    }


def test_profiles_are_deleted(store: ProfileStore) -> None:
    foreign_files.write(store.folder, "small.mlperf/report.json")
    store.tag("own", ["slow"])
    revision = store.revision()
    for id_ in ("own", "small.mlperf"):
        store.remove(id_)
    assert store.entries() == []
    assert store.revision() != revision
    write_profiles(store.folder / "own.json", [small_profile()])
    assert [entry.tags for entry in store.entries()] == [()]


def test_only_profiles_are_changed(store: ProfileStore, tmp_path: Path) -> None:
    (store.folder / "keys.json").write_text('{"password": "hunter2"}', encoding="utf-8")
    (tmp_path / "outside").mkdir()
    _make_link(store.folder, tmp_path / "outside")
    for id_ in ("keys", "other", "../outside/secret", ".tags", ""):
        for change in (store.remove, lambda id_: store.rename(id_, "new"), lambda id_: store.tag(id_, ["a"])):
            with pytest.raises(UsageError):
                change(id_)
    assert (tmp_path / "outside" / "secret.json").exists()
    assert (store.folder / "keys.json").exists()


@pytest.mark.parametrize("tags", [["x" * 41], [""], [f"{number}" for number in range(21)]])
def test_tags_have_limits(store: ProfileStore, tags: list[str]) -> None:
    with pytest.raises(UsageError, match="tags cannot be saved"):
        store.tag("own", tags)


@pytest.mark.parametrize("content", ["{", '{"own": 3}', "[" * 10_000])
def test_damaged_tags_are_ignored(store: ProfileStore, content: str) -> None:
    (store.folder / ".tags.json").write_text(content, encoding="utf-8")
    assert [entry.tags for entry in store.entries()] == [()]
    store.tag("own", ["new"])
    assert [entry.tags for entry in store.entries()] == [("new",)]


def test_a_folder_that_was_removed_is_empty(store: ProfileStore) -> None:
    shutil.rmtree(store.folder)
    assert store.entries() == []
    assert store.revision() == hash(())


def test_what_limits_a_time_is_remarked(store: ProfileStore) -> None:
    early = EarlyEnd("limit", "predict", "the engine took longer than 2 s")
    stage = StageTiming(name="model0", kind="visionFeaturePrint", absent="it is part of the system")
    lost = Finding(id="layer-not-run", severity="warning", text="A layer was not run.")
    measured = msgspec.structs.replace(
        small_measurement(), partial=early, stages=(stage,), findings=(lost, lost)
    )
    write_profiles(
        store.folder / "own.json", [msgspec.structs.replace(small_profile(), measurements=(measured,))]
    )
    failed = not_measured("The model", EngineError("the engine crashed"))
    write_profiles(
        store.folder / "z.json",
        [msgspec.structs.replace(small_profile(), measurements=(), findings=(failed,))],
    )
    remarks = {entry.id: entry.remarks for entry in store.entries()}
    assert remarks == {
        "own": ("partial", "model0 not run", "2 layers not run"),
        "z": ("not measured",),
    }
