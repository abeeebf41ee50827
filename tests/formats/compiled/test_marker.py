"""Compiled models written by this package."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.formats import container, packaging
from coremlscope.formats.compiled.marker import MARKER, is_own_compiled, locate_source, write_marker
from tests.support.constant_programs import linear_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "m.mlmodelc"
    path.mkdir()
    packaging.write_mlpackage(linear_model(), path / "m.mlpackage")
    write_marker(path, PurePosixPath("m.mlpackage"))
    return path


def _mark(folder: Path, **changes: object) -> None:
    content = json.loads((folder / MARKER).read_text())
    (folder / MARKER).write_text(json.dumps({**content, **changes}))


def test_reads_as_the_source_model(folder: Path) -> None:
    model = container.read(folder)
    assert model == container.read(folder / "m.mlpackage")
    assert (model.container, model.source) == ("mlmodelc", folder)


def test_is_identified_by_its_marker(folder: Path) -> None:
    moved = folder.rename(folder.with_name("other"))
    assert is_own_compiled(moved)
    assert container.sniff(moved) == "mlmodelc"
    assert locate_source(moved) == moved / "m.mlpackage"


@pytest.mark.parametrize(
    "model", ["../m.mlpackage", "/etc", "", "a/../../b", "c:\\m.mlpackage", 7, None], ids=repr
)
def test_marker_with_an_invalid_path(folder: Path, model: object) -> None:
    _mark(folder, model=model)
    with pytest.raises(CorruptModelError, match=r"outside the folder|damaged"):
        container.read(folder)


def test_link_to_the_folder_itself(folder: Path) -> None:
    (folder / "loop.mlmodelc").symlink_to(folder, target_is_directory=True)
    _mark(folder, model="loop.mlmodelc")
    with pytest.raises(CorruptModelError, match="outside the folder"):
        container.read(folder)


def test_link_to_outside(folder: Path) -> None:
    outside = folder.parent / "outside.mlpackage"
    (folder / "m.mlpackage").rename(outside)
    (folder / "m.mlpackage").symlink_to(outside, target_is_directory=True)
    with pytest.raises(CorruptModelError, match="outside the folder"):
        container.read(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other"}', "[" * 100_000])
def test_damaged_marker(folder: Path, text: str) -> None:
    (folder / MARKER).write_text(text)
    with pytest.raises(CorruptModelError, match="damaged"):
        container.read(folder)


def test_missing_source_model(folder: Path) -> None:
    _mark(folder, model="other.mlpackage")
    with pytest.raises(CorruptModelError, match=r"the model other\.mlpackage is missing"):
        container.read(folder)


def test_newer_version(folder: Path) -> None:
    _mark(folder, version=2)
    with pytest.raises(UnsupportedModelError, match="version 2"):
        container.read(folder)
