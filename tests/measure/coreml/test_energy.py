"""Energy on a Mac: the package and the program that read counters are scripted here."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import coremltools as ct
import pytest

from coremlscope.formats import container
from coremlscope.formats.recordings.power import Readings, summarize_readings
from coremlscope.measure.contract import MeasuredModel, resolve_settings
from coremlscope.measure.coreml import energy
from coremlscope.measure.coreml.timing import CoreMLMeasurer
from coremlscope.results.measurement import Settings
from tests.support import converted_models
from tests.support.coreml_children import child_over_dropin

#: zeus-apple-silicon 1.1 as its documentation describes it.
_ZEUS = """
    class _Metrics:
        cpu_total_mj, gpu_mj, ane_mj, dram_mj = 4000, 0, 6000, None

    class AppleEnergyMonitor:
        def __init__(self):
            if FAILS == "start":
                raise RuntimeError("this chip is not known")
            self._open = set()

        def begin_window(self, label):
            assert label not in self._open
            self._open.add(label)

        def end_window(self, label):
            self._open.remove(label)
            if FAILS == "end":
                raise RuntimeError("IOReport does not answer")
            return _Metrics()
"""
_MACMON = """\
#!{python}
import json, sys, time
assert sys.argv[1:] == ["pipe", "-i", "500"]
for _ in range(100):
    print(json.dumps({{"cpu_power": 1.0, "gpu_power": 0.5, "ane_power": 2.0, "all_power": 3.5}}), flush=True)
    time.sleep(0.02)
"""


class Clock:
    """A clock that a prediction moves by half a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def predict(self) -> None:
        self.now += 0.5


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for modules and programs; nothing else is found on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("zeus_apple_silicon", None)


def zeus(folder: Path, fails: str = "") -> None:
    code = f"FAILS = {fails!r}\n" + textwrap.dedent(_ZEUS)
    (folder / "zeus_apple_silicon.py").write_text(code)


def macmon(folder: Path) -> None:
    program = folder / "macmon"
    program.write_text(_MACMON.format(python=sys.executable))
    program.chmod(0o755)


@pytest.mark.usefixtures("path")
def test_without_a_tool_there_is_none() -> None:
    assert energy.find_meter() is None


def test_the_package_is_read_over_a_window(path: Path) -> None:
    zeus(path)
    meter, clock = energy.find_meter(), Clock()
    assert meter is not None
    message = energy.measure_energy(meter, clock.predict, clock)
    assert message is not None
    readings, predictions = energy.readings_of(message)
    summary = summarize_readings(readings, predictions)
    # The first second is not counted; the window has 4.
    assert (summary.tool, summary.window_s, summary.predictions) == ("zeus-apple-silicon", 4.0, 8)
    # The GPU's counter stayed at 0, the memory's does not exist.
    assert {one.unit: one.energy_j for one in summary.units} == {"cpu": 4.0, "neural_engine": 6.0}


def test_the_program_is_read_where_the_package_is_absent(path: Path) -> None:
    macmon(path)
    meter = energy.find_meter()
    assert meter is not None
    clock = Clock()

    def predict() -> None:
        clock.predict()
        time.sleep(0.1)

    message = energy.measure_energy(meter, predict, clock)
    assert message is not None
    readings, _ = energy.readings_of(message)
    summary = summarize_readings(readings)
    assert summary.tool == "macmon"
    assert summary.window_s == pytest.approx(4.0)
    assert {one.unit: one.power_w for one in summary.units} == pytest.approx(
        {"cpu": 1.0, "gpu": 0.5, "neural_engine": 2.0}
    )


@pytest.mark.parametrize("fails", ["start", "end"])
def test_failures_leave_it_absent(fails: str, path: Path) -> None:
    zeus(path, fails)
    meter = energy.find_meter()
    assert (meter is None) == (fails == "start")
    if meter is not None:
        assert energy.measure_energy(meter, (clock := Clock()).predict, clock) is None


def test_a_failing_package_gives_way_to_the_program(path: Path) -> None:
    zeus(path, "start")
    macmon(path)
    assert type(energy.find_meter()).__name__ == "_Macmon"


def test_a_prediction_that_fails_is_not_taken_for_the_meter(path: Path) -> None:
    zeus(path)
    meter, clock = energy.find_meter(), Clock()
    assert meter is not None

    def predict() -> None:
        clock.predict()
        if clock.now > 2:
            raise RuntimeError("Core ML failed")

    with pytest.raises(RuntimeError, match="Core ML failed"):
        energy.measure_energy(meter, predict, clock)


def test_no_reading_is_no_energy() -> None:
    class Silent:
        def begin(self) -> None:
            return

        def end(self, seconds: float) -> Readings:
            return Readings(tool="silent")

    clock = Clock()
    assert energy.measure_energy(Silent(), clock.predict, clock) is None


def test_a_measurement_of_core_ml_has_it(tmp_path: Path) -> None:
    zeus(tmp_path)
    package = tmp_path / "mlp.mlpackage"
    converted_models.mlp(precision=ct.precision.FLOAT16).save(str(package))
    model = container.read(package)
    settings = Settings(iterations=2, compile_iterations=1, load_iterations=1, warmups=1)
    subject = MeasuredModel.of(model, resolve_settings(model, settings))
    quick = "import coremlscope.measure.coreml.energy as e; e._SETTLE_S, e._WINDOW_S = 0.0, 0.2"
    before = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {quick}"
    child = child_over_dropin("coremlscope.measure.coreml.timing_child:time_model", before)
    measured = CoreMLMeasurer(command=child).measure(subject, settings)
    assert measured.energy is not None
    assert {one.unit: one.energy_j for one in measured.energy.units} == pytest.approx(
        {"cpu": 4.0, "neural_engine": 6.0}
    )
    assert measured.energy.predictions is not None
    assert {"energy-is-modelled", "counter-at-zero", "energy-window-short"} <= {
        finding.id for finding in measured.findings
    }
    assert measured.predict is not None
    assert len(measured.predict.samples_s) == 2
