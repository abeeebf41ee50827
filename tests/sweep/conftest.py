from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coremlscope.devices.targets import Targets
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.results.sweep import SweepSummary
from coremlscope.studies.sweep.jobs import Measuring
from coremlscope.studies.sweep.run import run_sweep


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of files and the lock of measurements are in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small classifiers, one of them in a folder, a damaged model, and a file that is no model."""
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "inner").mkdir()
    write_mlpackage(sample_model(size=32, width=0.25, classes=10), folder / "small.mlpackage")
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), folder / "inner" / "large.mlpackage")
    (folder / "damaged.mlmodel").write_bytes(b"\x08\x07\x12")
    (folder / "notes.txt").write_text("no model")
    return folder


@pytest.fixture
def swept(
    swept_once: tuple[Path, SweepSummary], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, SweepSummary]:
    """The results of `swept_once` in a folder of the test, which may add to them."""
    folder, summary = swept_once
    return Path(shutil.copytree(folder, tmp_path_factory.mktemp("copy") / "results")), summary


@pytest.fixture(scope="session")
def swept_once(zoo: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SweepSummary]:
    """The results of the zoo for two devices and settings, measured as well, and what the sweep said."""
    folder = tmp_path_factory.mktemp("swept") / "results"
    summary = run_sweep(
        zoo,
        folder=folder,
        devices=Targets(["m1", "iphone-15-pro"], compute_units=["all", "cpu_only"]),
        measuring=Measuring(iterations=3),
        labels={"family": "mobilenet", "accuracy": 71.5},
    )
    return folder, summary
