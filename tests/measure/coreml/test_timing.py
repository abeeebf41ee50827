"""Core ML timed through coremltools; here the drop-in answers in Core ML's place."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from coremlscope import api
from coremlscope.errors import EngineError, InputError
from coremlscope.formats import container
from coremlscope.ir import Model
from coremlscope.measure.contract import Subject, resolve_settings
from coremlscope.measure.coreml.timing import CoreMLMeasurer
from coremlscope.results.measurement import Settings
from tests.support import converted_models
from tests.support.coreml_children import TIMING_CHILD
from tests.support.ir_models import perceptron


def subject_of(model: Model) -> Subject:
    return Subject.of(model, resolve_settings(model, Settings()))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "classifier.mlpackage"
    converted_models.classifier().save(str(path))
    return path


def test_a_process_of_its_own_times(package: Path) -> None:
    told: list[tuple[str, int, int]] = []
    settings = Settings(compute_units="cpu_only", iterations=4)
    measured = CoreMLMeasurer(command=TIMING_CHILD).measure(
        subject_of(container.read(package)), settings, progress=lambda *state: told.append(state)
    )
    assert measured.predict is not None
    assert measured.load is not None
    assert (measured.compute_units, measured.settings) == ("cpu_only", settings)
    assert (len(measured.predict.samples_s), len(measured.predict.warmups_s)) == (4, 3)
    # The first load compiles for the device.
    assert (len(measured.load.samples_s), len(measured.load.warmups_s)) == (2, 1)
    assert min(measured.predict.samples_s) > 0
    assert [phase for phase, *_ in told] == ["load"] * 3 + ["warm-up"] * 3 + ["predict"] * 4
    assert told[-1] == ("predict", 4, 4)
    assert measured.label.startswith("Core ML on ")
    assert (measured.runtime.id, measured.runtime.name) == ("coreml", "Core ML")
    # Core ML's predictions are timed as a whole.
    assert (measured.groups, measured.status, measured.compile) == ((), (), None)
    assert measured.measured_at


def test_on_a_mac_every_setting_is_measured(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coremlscope.api.sys.platform", "darwin")
    monkeypatch.setattr("coremlscope.batch.power_mode", lambda: "low power")
    monkeypatch.setattr("coremlscope.engines.host.power_mode", lambda: "low power")
    measurer = partial(CoreMLMeasurer, command=TIMING_CHILD)
    monkeypatch.setattr("coremlscope.measure.coreml.timing.CoreMLMeasurer", measurer)
    (profile,) = api.matrix(package, compute_units=["all", "cpu_only"], iterations=2)
    assert profile.findings == ()
    assert [(m.compute_units, m.machine.power_mode) for m in profile.measurements] == [
        ("all", "low power"),
        ("cpu_only", "low power"),
    ]


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
    measurer = CoreMLMeasurer(limit_s=limit_s, command=[sys.executable, "-c", code])
    with pytest.raises(EngineError, match=message):
        measurer.measure(subject_of(container.read(package)), Settings(iterations=1))


def test_models_in_memory_are_refused() -> None:
    with pytest.raises(EngineError, match="in memory"):
        CoreMLMeasurer(command=TIMING_CHILD).measure(subject_of(perceptron()), Settings(iterations=1))


def test_given_values_are_refused(package: Path) -> None:
    with pytest.raises(InputError, match="synthetic inputs"):
        CoreMLMeasurer(command=TIMING_CHILD).measure(
            subject_of(container.read(package)), Settings(), inputs={"image": 0}
        )
