"""Parts of models on a Mac; here the drop-in answers in Core ML's place."""

from __future__ import annotations

import sys
import urllib.request  # noqa: F401 - it cannot be imported once this machine is said to be a Mac
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

import coremlscope
from coremlscope.dropin import install, uninstall
from coremlscope.formats.packaging import write_mlpackage
from tests.support.programs import build


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def body(x):
        x = mb.relu(x=x, name="before")
        x = mb.cumsum(x=x, axis=1, name="sums")
        return mb.mul(x=x, y=np.float16(0.5), name="after")

    path = tmp_path_factory.mktemp("models") / "model.mlpackage"
    write_mlpackage(build(body, {"x": np.zeros((1, 8, 4, 4), np.float16)}), path)
    return path


@pytest.fixture(scope="module")
def drop_in() -> Iterator[None]:
    """coremltools with the drop-in; on a Mac with Core ML itself."""
    if sys.platform == "darwin":
        yield
        return
    install()
    yield
    uninstall()


@pytest.mark.long
@pytest.mark.usefixtures("drop_in", "mac")
def test_a_part_runs_in_core_ml(package: Path, tmp_path: Path) -> None:
    part = coremlscope.isolate(
        package,
        tmp_path / "part.mlpackage",
        span="before..sums",
        iterations=2,
        devices=coremlscope.Targets(compute_units="cpu_only"),
    )
    (output,) = part.outputs
    assert set(output.difference) == {"here", "cpu_only"}
    assert all(value is not None and value < 1e-2 for value in output.difference.values())
    assert [m.compute_units for m in part.profile.measurements] == ["cpu_only"]
    assert {m.runtime.id for m in part.profile.measurements} == {"coreml"}
    assert "Core ML" in {plan.planner for plan in part.profile.plans}
