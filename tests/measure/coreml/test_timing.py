"""Core ML timed through coremltools; here the drop-in answers in Core ML's place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from coremlscope import api
from coremlscope.errors import EngineError
from coremlscope.formats import container
from coremlscope.measure.coreml.timing import time_in_core_ml
from tests.support import converted_models
from tests.support.ir_models import perceptron


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "classifier.mlpackage"
    converted_models.classifier().save(str(path))
    return path


def test_a_process_of_its_own_times(package: Path) -> None:
    told: list[str] = []
    timing = time_in_core_ml(
        container.read(package), "cpu_only", iterations=4, progress=lambda phase, *_: told.append(phase)
    )
    assert (timing.compute_units, len(timing.predict.samples_s), len(timing.load.samples_s)) == (
        "cpu_only", 4, 2,
    )  # fmt: skip
    assert min(timing.predict.samples_s) > 0
    assert told == ["load"] * 3 + ["warm-up"] * 3 + ["predict"] * 4
    assert timing.by.startswith("Core ML on ")


def test_on_a_mac_every_setting_is_measured(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coremlscope.api.sys.platform", "darwin")
    monkeypatch.setattr("coremlscope.matrix.power_mode", lambda: "low power")
    matrix = api.matrix(package, compute_units=["all", "cpu_only"], iterations=2)
    (row,) = matrix.rows
    assert row.problems == ()
    assert [(t.compute_units, t.power_mode) for t in row.timings] == [
        ("all", "low power"), ("cpu_only", "low power"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "limit_s", "message"),
    [
        ("raise SystemExit('no such model')", 30, "failed: no such model"),
        ("import time; time.sleep(60)", 0.3, "no sign of life"),
        ("print('a remark')", 30, "made no predictions"),
        ("import os; os.abort()", 30, "failed: exit code"),
    ],
)
def test_what_can_go_wrong(package: Path, code: str, limit_s: float, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        time_in_core_ml(
            container.read(package),
            "all",
            iterations=1,
            limit_s=limit_s,
            command=[sys.executable, "-c", code],
        )


def test_models_in_memory_are_refused() -> None:
    with pytest.raises(EngineError, match="in memory"):
        time_in_core_ml(perceptron(), "all", iterations=1)
