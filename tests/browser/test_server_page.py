"""The page of `coremlscope serve` in a browser."""

from __future__ import annotations

import shutil
import threading
from typing import Any

import pytest

from coremlscope.devices import find_device
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.server.limits import ServerLimits
from coremlscope.server.server import Address, serve
from tests.support.browser import Drive


@pytest.fixture(scope="module")
def seen(drive: Drive, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("server")
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), folder / "small.mlpackage")
    archive = shutil.make_archive(str(folder / "first"), "zip", folder, "small.mlpackage")
    shutil.copy(archive, folder / "second.zip")
    (folder / "notes.txt").write_text("no model")
    with serve(Address(), ServerLimits()) as (url, answer):
        threading.Thread(target=answer, daemon=True).start()
        files = (folder / "small.mlpackage", archive, folder / "notes.txt")
        found: dict[str, Any] = drive("server", url, *map(str, files))
    return found


def test_a_model_is_opened_for_the_default_devices(seen: dict[str, Any]) -> None:
    assert seen["opened"] == "small.mlpackage"
    names = [find_device(name).name for name in DEFAULT_DEVICES]
    assert [text.split(",")[0] for text in seen["devices"]] == names
    assert seen["first"].split(",")[0] == "iPhone 13"  # as it was chosen
    assert seen["times"] == 0  # it is run on request alone


def test_a_picture_is_given_to_the_model(seen: dict[str, Any]) -> None:
    found = seen["previewed"]
    assert "measured by ONNX Runtime" in found["time"]
    assert (found["classes"], found["pictures"]) == (10, 1)
    assert found["refused"] == ["No input of this model takes photo.txt", "→ it takes a photo"]


def test_frames_of_a_camera_are_given_to_the_model(seen: dict[str, Any]) -> None:
    assert seen["frames"] == 2
    assert seen["isFilming"] == 0


def test_two_models_are_compared(seen: dict[str, Any]) -> None:
    assert "first.zip/small.mlpackage · second.zip/small.mlpackage" in seen["compared"]


def test_what_is_no_model_is_refused(seen: dict[str, Any]) -> None:
    assert "notes.txt" in seen["refused"]


def test_the_page_is_accessible_and_quiet(seen: dict[str, Any]) -> None:
    assert {name: found for name, found in seen["violations"].items() if found} == {}
    assert seen["phoneOverflow"] <= 0
    assert seen["complaints"] == []
