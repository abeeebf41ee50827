"""A damaged compiled model is read, or gives a clear error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from coremlscope.base.errors import CoremlscopeError, CorruptModelError
from coremlscope.describe.model import describe_model
from coremlscope.formats import container
from coremlscope.formats.compiled.writing import write_compiled
from coremlscope.formats.packaging import write_mlpackage
from tests.support.constant_programs import linear_model
from tests.support.ir_models import adder

_FILES = ("model.mil", "metadata.json", "coremldata.bin", "analytics/coremldata.bin", "weights/weight.bin")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled model."""
    folder = tmp_path_factory.mktemp("compiled")
    write_mlpackage(linear_model(), folder / "m.mlpackage")
    write_compiled(folder / "m.mlpackage", folder / "m.mlmodelc")
    return folder / "m.mlmodelc"


def _describe(folder: Path) -> bool:
    """Reads and describes a model. Only this package's errors may be raised; returns whether one was."""
    try:
        describe_model(container.read(folder))
    except CoremlscopeError as error:
        if not (error.hint and error.message.isprintable() and len(error.message) < 1000):
            raise AssertionError(f"{error.message!r}, {error.hint!r}") from error
        return True
    return False


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(_FILES),
    place=st.floats(0, 1, exclude_max=True),
    removed=st.integers(0, 100),
    added=st.binary(max_size=20),
)
@example(name="model.mil", place=0.2, removed=0, added=b"\x03\x00")
@example(name="metadata.json", place=0.0, removed=0, added=b"[" * 20)
def test_damaged_files(
    name: str, place: float, removed: int, added: bytes, compiled: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "m.mlmodelc"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(compiled, folder)
    content = (folder / name).read_bytes()
    start = int(place * len(content))
    (folder / name).write_bytes(content[:start] + added + content[start + removed :])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    _describe(folder)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("name", _FILES)
def test_missing_files(name: str, compiled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "m.mlmodelc"
    shutil.copytree(compiled, folder)
    (folder / name).unlink()
    assert _describe(folder) == (name == "model.mil")


def test_an_unprintable_name_in_the_text(tmp_path: Path) -> None:
    write_mlpackage(adder(), tmp_path / "m.mlpackage")
    write_compiled(tmp_path / "m.mlpackage", tmp_path / "m.mlmodelc")
    text = (tmp_path / "m.mlmodelc/model.mil").read_text()
    damaged = text.replace("y = ", "y = \x03fp32(0x1p+0) , ", 1)
    assert damaged != text
    (tmp_path / "m.mlmodelc/model.mil").write_text(damaged)
    with pytest.raises(CorruptModelError, match=r"line \d+, column \d+") as caught:
        container.read(tmp_path / "m.mlmodelc")
    assert caught.value.message.isprintable()
