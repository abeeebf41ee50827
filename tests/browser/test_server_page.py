"""The page of `coremlscope serve` in a browser."""

from __future__ import annotations

import threading
from typing import Any

import msgspec.structs
import pytest

from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.results.profile import Provenance, write_profiles
from coremlscope.server.limits import ServerLimits
from coremlscope.server.server import Address, serve
from coremlscope.server.state import device_names
from tests.support.browser import Drive
from tests.support.profiles import small_profile


@pytest.fixture(scope="module")
def seen(drive: Drive, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("server")
    profiles = folder / "profiles"
    profiles.mkdir()
    for number, name in enumerate(("first", "second")):
        made = Provenance(f"2026-02-0{number + 1}T00:00:00Z")
        write_profiles(profiles / f"{name}.json", [msgspec.structs.replace(small_profile(), made=made)])
    write_profiles(folder / "upload.json", [small_profile()])
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), folder / "small.mlpackage")
    with serve(profiles, Address(), ServerLimits()) as (url, answer):
        threading.Thread(target=answer, daemon=True).start()
        found: dict[str, Any] = drive(
            "server", url, str(folder / "upload.json"), str(folder / "small.mlpackage")
        )
    return {**found, "files": sorted(path.name for path in profiles.iterdir() if path.name[0] != ".")}


def test_profiles_are_searched_and_tagged(seen: dict[str, Any]) -> None:
    assert seen["listed"] == ["second.json", "first.json"]
    assert seen["tags"] == ["before the fix", "slow"]
    assert seen["found"] == ["first.json"]


def test_profiles_are_renamed_deleted_and_compared(seen: dict[str, Any]) -> None:
    assert "'first.json' already exists" in seen["refused"]
    assert seen["renamed"] == ["renamed.json", "first.json"]
    assert seen["left"] == 2
    assert seen["files"] == ["renamed.json", "upload-20260131-120000.json"]
    assert seen["compared"]


def test_devices_are_suggested(seen: dict[str, Any]) -> None:
    assert seen["devices"] == ["iPhone 15 Pro ×", "m1 ×"]
    assert seen["suggestions"] == len(device_names())


def test_devices_are_added_to_a_profile(seen: dict[str, Any]) -> None:
    assert seen["extensible"] == 0  # no model of the saved profiles is here
    assert [name.split(",")[0] for name in seen["planned"]] == ["iPhone 15 Pro", "M1", "M3"]


def test_a_device_is_added_from_the_report(seen: dict[str, Any]) -> None:
    assert seen["onDemand"].split(",")[0] == "M4"


def test_a_picture_is_previewed_on_a_model(seen: dict[str, Any]) -> None:
    found = seen["previewed"]
    assert "a prediction" in found["time"]
    assert "measured by ONNX Runtime" in found["time"]
    assert (found["classes"], found["pictures"], found["violations"]) == (10, 1, [])
    assert found["refused"] == "No input of this model takes photo.txt."


def test_the_page_is_accessible_and_quiet(seen: dict[str, Any]) -> None:
    assert seen["violations"] == {"light": [], "dark": []}
    assert [text for text in seen["complaints"] if "400" not in text] == []
