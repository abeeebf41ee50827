"""Folders of users, and what is said of files that cannot be written."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from coremlscope.base.errors import known_error
from coremlscope.base.folders import cache_folder, data_folder
from coremlscope.describe.comparison.profiles import label_subjects
from coremlscope.reports.words import model_name


@pytest.mark.skipif(sys.platform != "linux", reason="containers run Linux")
def test_a_user_whom_the_system_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "COREMLSCOPE_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**30)
    with pytest.raises(RuntimeError):
        Path.home()
    assert cache_folder() == Path("/.cache/coremlscope")
    assert data_folder() == Path("/.local/share/coremlscope")


def test_a_library_that_does_not_fit_is_a_lack_of_memory() -> None:
    error = ImportError("_compute.so: failed to map segment from shared object")
    assert known_error(error) is known_error(MemoryError())


def test_the_first_file_of_a_copy_tells_why(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "file").write_text("x")
    full = OSError(28, "No space left on device", "file")

    def fail(source: str, target: str) -> None:
        raise full

    with pytest.raises(shutil.Error) as raised:
        shutil.copytree(tmp_path / "x", tmp_path / "y", copy_function=fail)
    assert known_error(raised.value).message == "No space left on device"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/App.ipa#Detector.mlmodelc", "Detector.mlmodelc"),
        ("App.zip#models/b.mlpackage", "b.mlpackage"),
        ("/a/net #2.mlmodel", "net #2.mlmodel"),
        ("C#/net.mlmodel", "net.mlmodel"),
    ],
)
def test_a_model_in_an_archive_has_its_own_name(path: str, name: str) -> None:
    assert model_name(path) == name
    assert label_subjects([path]) == [name]
