"""Models × settings, with a measurer that is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from coremlscope.api import sources as filling
from coremlscope.api.sources import FAILED, fill_profiles
from coremlscope.base.errors import EngineError, NotAModelError, UnsupportedModelError
from coremlscope.devices import ComputeUnits, find_device
from coremlscope.formats.sample import sample_model
from coremlscope.measure.contract import MeasuredModel, Measurer
from coremlscope.measure.embedded.measurer import EngineMeasurer
from coremlscope.measure.scripted import ScriptedMeasurer
from coremlscope.model.ir import Model
from coremlscope.planning.forecast.planner import Forecast, forecast
from coremlscope.results.measurement import Settings
from coremlscope.results.profile import Profile, profiles_from_json, to_json
from coremlscope.runtime.engines.scripted import ScriptedClock, ScriptedEngine
from tests.support.ir_models import perceptron

UNITS: tuple[ComputeUnits, ...] = ("all", "cpu_and_ne", "cpu_and_gpu", "cpu_only")
SETTINGS = [Settings(compute_units=setting, iterations=3) for setting in UNITS]


GOOD = perceptron()
BROKEN = NotAModelError("this is not a model", "choose another")


def fill(
    sources: Sequence[tuple[str, Model | NotAModelError]],
    settings: Sequence[Settings],
    measurer: Measurer,
    **options: Any,
) -> tuple[Profile, ...]:
    return fill_profiles(sources, lambda _: (measurer, settings), **options)


def measurer(**failures: BaseException) -> ScriptedMeasurer:
    """A measurer that fails under some settings of compute units."""
    return ScriptedMeasurer(predict_s=(0.25, 0.5, 0.25), failures=failures)


TIMER = measurer(cpu_and_gpu=EngineError("no GPU here", "use the CPU"))


def test_what_fails_stops_nothing_else() -> None:
    calls: list[tuple[Profile, ...]] = []
    models = [("broken", BROKEN), ("good", GOOD)]
    profiles = fill(models, SETTINGS, TIMER, changed=calls.append)
    assert [profile.model.path for profile in profiles] == ["broken", "good"]
    assert profiles[0].measurements == ()
    assert [m.compute_units for m in profiles[1].measurements] == ["all", "cpu_and_ne", "cpu_only"]
    findings = [finding for profile in profiles for finding in profile.findings]
    assert [finding.text for finding in findings] == [
        "read: this is not a model",
        "measure cpu_and_gpu: no GPU here",
    ]
    assert {(finding.id, finding.severity) for finding in findings} == {(FAILED, "error")}
    assert [finding.hint for finding in findings] == ["choose another", "use the CPU"]
    assert [finding.exit_code for finding in findings] == [NotAModelError.exit_code, EngineError.exit_code]
    assert calls[-1] == profiles
    assert [profile.model.path for profile in calls[0]] == ["broken", "good"]
    assert len(calls[1][1].measurements) < 2


def test_profiles_grow_step_by_step() -> None:
    calls: list[tuple[Profile, ...]] = []
    (profile,) = fill([("good", GOOD)], SETTINGS[:2], TIMER, changed=calls.append)
    assert [len(found.measurements) for (found,) in calls] == [0, 0, 1, 2]
    # A model that was read is described before it is measured.
    assert [bool(found.model.functions) for (found,) in calls] == [False, True, True, True]
    assert len(profile.ops) > 0
    assert profile.made.at


def test_off_a_mac_one_setting_is_timed() -> None:
    (profile,) = fill([("good", GOOD)], SETTINGS[:1], TIMER)
    assert len(profile.measurements) == 1
    assert profile.findings == ()


def test_one_setting_is_not_named_where_it_fails() -> None:
    timer = measurer(all=EngineError("no engine"))
    (profile,) = fill([("good", GOOD)], SETTINGS[:1], timer)
    assert [finding.text for finding in profile.findings] == ["measure: no engine"]
    assert profile.model.functions


def test_ctrl_c_keeps_what_is_done() -> None:
    timer = measurer(cpu_only=KeyboardInterrupt())
    profiles = fill([("a", GOOD), ("b", GOOD)], SETTINGS, timer)
    assert [len(profile.measurements) for profile in profiles] == [3, 0]
    assert [[finding.id for finding in profile.findings] for profile in profiles] == [["interrupted"], []]
    assert [finding.severity for finding in profiles[0].findings] == ["warning"]


def test_power_modes_are_recorded_and_never_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: Iterator[str] = iter(["normal", "normal", "normal", "low power", "low power", "low power"])
    monkeypatch.setattr(filling, "power_mode", lambda: next(modes))
    models = [("a", GOOD), ("b", GOOD), ("c", GOOD)]
    profiles = fill(models, SETTINGS[:1], TIMER)
    assert [len(profile.measurements) for profile in profiles] == [1, 0, 1]
    assert "changed from normal to low power" in profiles[1].findings[0].text
    assert list(modes) == []


def test_this_host() -> None:
    engine = ScriptedEngine(clock=ScriptedClock(), run_s=(0.25,))
    settings = Settings(iterations=3, compile_iterations=1, load_iterations=3)
    measurer = EngineMeasurer(engine=engine, clock=engine.clock)
    model = sample_model(size=32, width=0.5, classes=4)
    (profile,) = fill([("sample", model)], [settings], measurer)
    measured = profile.measurement
    assert measured.predict is not None
    assert measured.load is not None
    assert (measured.predict.samples_s, len(measured.load.samples_s)) == ((0.25,) * 3, 3)
    # Settings of compute units matter to Core ML alone.
    assert measured.compute_units == ""
    assert measured.settings.function == "main"


def forecaster(*devices: str) -> Callable[[MeasuredModel], Forecast]:
    found = [find_device(name) for name in devices]
    return lambda subject: forecast(subject.model, subject.ops, found, UNITS, advised=())


def test_forecasts() -> None:
    model = sample_model(size=32, width=0.5, classes=4)
    (profile,) = fill([("sample", model)], SETTINGS[:1], TIMER, forecaster=forecaster("m1", "a14"))
    devices = ["M1", "A14"]
    assert [plan.device for plan in profile.plans] == devices
    assert [(e.device, e.compute_units) for e in profile.estimates] == [
        (d, s) for d in devices for s in UNITS
    ]
    assert {plan.origin for plan in profile.plans} == {"planned"}
    assert {estimate.latency.origin for estimate in profile.estimates} == {"estimated"}
    every, *_, cpu = profile.plans[0].settings
    assert every.total_ms <= cpu.total_ms
    assert profile.kernels
    assert len(profile.measurements) == 1


def test_what_cannot_be_forecast_is_measured_all_the_same() -> None:
    def refuse(subject: MeasuredModel) -> Forecast:
        raise UnsupportedModelError("no operations", "")

    (profile,) = fill([("good", GOOD)], SETTINGS[:1], TIMER, forecaster=refuse)
    assert [finding.text for finding in profile.findings] == ["plan and estimate: no operations"]
    assert profile.findings[0].exit_code == UnsupportedModelError.exit_code
    assert (profile.plans, profile.estimates, len(profile.measurements)) == ((), (), 1)


def test_json() -> None:
    profiles = fill([("good", GOOD), ("broken", BROKEN)], SETTINGS, TIMER)
    data = json.loads(json.dumps(to_json(profiles)))
    assert data["schema"] == "coremlscope.profiles/2"
    measured = data["profiles"][0]["measurements"][0]
    assert measured["predict"]["statistics"]["median"] == 0.25
    assert (measured["compute_units"], measured["runtime"]["id"]) == ("all", "scripted")
    assert profiles_from_json(data) == profiles
