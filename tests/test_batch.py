"""Models × settings, with a timer that is given."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from coremlscope import matrix as module
from coremlscope.batch import Matrix, Timing, fill_matrix, forecast_model, time_on_host
from coremlscope.devices import ComputeUnits, find_device
from coremlscope.engines.scripted import ScriptedClock, ScriptedEngine
from coremlscope.errors import EngineError, NotAModelError
from coremlscope.formats.sample import sample_model
from coremlscope.ir import Model
from coremlscope.results.profile import Phase
from tests.support.ir_models import perceptron

SETTINGS: tuple[ComputeUnits, ...] = ("all", "cpu_and_ne", "cpu_and_gpu", "cpu_only")
EMPTY = Matrix(3, SETTINGS, (), ())


def read() -> Model:
    return perceptron()


def broken() -> Model:
    raise NotAModelError("that is no model", "give another")


def timer(model: Model, setting: ComputeUnits) -> Timing:
    if setting == "cpu_and_gpu":
        raise EngineError("no GPU here")
    return Timing("Core ML", setting, "", Phase((0.5,)), Phase((0.25, 0.5, 0.25)))


def test_what_fails_stops_nothing_else() -> None:
    told: list[Matrix] = []
    models = [("broken", broken), ("good", read)]
    matrix = fill_matrix(models, EMPTY, timer, settings_matter=True, changed=told.append)
    assert [row.model for row in matrix.rows] == ["broken", "good"]
    assert [t.compute_units for t in matrix.rows[1].timings] == ["all", "cpu_and_ne", "cpu_only"]
    problems = [(p.what, p.message) for row in matrix.rows for p in row.problems]
    assert problems == [("read", "that is no model"), ("measure cpu_and_gpu", "no GPU here")]
    assert matrix.exit_code == NotAModelError.exit_code
    assert told[-1] == matrix
    assert len(told[1].rows[1].timings) < 2


def test_off_a_mac_one_setting_is_timed() -> None:
    matrix = fill_matrix([("good", read)], EMPTY, timer, settings_matter=False)
    assert len(matrix.rows[0].timings) == 1
    assert matrix.exit_code == 0


def test_ctrl_c_keeps_what_is_done() -> None:
    def slow(model: Model, setting: ComputeUnits) -> Timing:
        if setting == "cpu_only":
            raise KeyboardInterrupt
        return timer(model, "all")

    matrix = fill_matrix([("a", read), ("b", read)], EMPTY, slow, settings_matter=True)
    assert matrix.interrupted
    assert [len(row.timings) for row in matrix.rows] == [3, 0]


def test_power_modes_are_recorded_and_never_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: Iterator[str] = iter(["normal", "normal", "normal", "low power", "low power", "low power"])
    monkeypatch.setattr(module, "power_mode", lambda: next(modes))
    models = [("a", read), ("b", read), ("c", read)]
    matrix = fill_matrix(models, EMPTY, timer, settings_matter=False)
    assert [t.power_mode for row in matrix.rows for t in row.timings] == ["normal", "low power"]
    assert "changed from normal to low power" in matrix.rows[1].problems[0].message


def test_this_host() -> None:
    engine = ScriptedEngine(clock=ScriptedClock(), run_s=(0.25,))
    model = sample_model(size=32, width=0.5, classes=4)
    timing = time_on_host(model, "all", iterations=3, engine=engine, clock=engine.clock)
    assert (timing.predict.samples_s, len(timing.load.samples_s)) == ((0.25,) * 3, 3)
    assert timing.compute_units == ""


def test_forecasts() -> None:
    devices = [find_device("m1"), find_device("a14")]
    found = forecast_model(sample_model(size=32, width=0.5, classes=4), devices, SETTINGS)
    assert [(f.device, f.compute_units) for f in found] == [(d.name, s) for d in devices for s in SETTINGS]
    assert {(f.planned_s.origin, f.latency.origin) for f in found} == {("planned", "estimated")}
    assert found[0].planned_s.value <= found[3].planned_s.value


def test_json() -> None:
    matrix = fill_matrix([("good", read)], EMPTY, timer, settings_matter=True)
    data = json.loads(json.dumps(matrix.to_json()))
    assert data["schema"] == "coremlscope.matrix/1"
    assert data["rows"][0]["timings"][0]["predict"]["statistics"]["median"] == 0.25
