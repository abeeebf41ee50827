"""Results of the runner as profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.api.imported import import_files, read_any
from coremlscope.base.errors import UsageError
from coremlscope.cli import main
from coremlscope.model.ir import Model
from coremlscope.reports.renderers import document_of
from coremlscope.reports.side_by_side import side_by_side_document
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.profile import Profile
from tests.support import programs
from tests.support.foreign_files import runner_record, runner_setting
from tests.support.planned_rows import rows

LOW = {"thermal_state": "serious", "is_low_power": True, "is_charging": False}


def write(folder: Path, *results: dict[str, Any], **changed: Any) -> Path:
    path = folder / "results.json"
    path.write_text(json.dumps(runner_record(*results, **changed)), encoding="utf-8")
    return path


def failed(step: str, status: str = "failed", **changed: Any) -> dict[str, Any]:
    failure = {"step": step, "text": "error code: -14.", "domain": "com.apple.CoreML", "code": -14}
    return runner_setting(status=status, step=step, failures=[failure], **changed)


def texts(profile: Profile, id_: str) -> list[str]:
    return [finding.text for finding in profile.all_findings if finding.id == id_]


def test_a_setting_becomes_a_measurement_and_a_plan(tmp_path: Path) -> None:
    profile = import_files([write(tmp_path, runner_setting())])
    measured = profile.measurement
    assert measured.label == "Core ML on iPhone 15 Pro, iOS 18.2, from results.json"
    assert (measured.machine.os, measured.machine.cores) == ("iOS 18.2 (22C152)", 6)
    assert (measured.compute_units, measured.machine.power_mode) == ("cpu_and_ne", "normal")
    assert measured.compile is not None
    assert measured.load is not None
    assert measured.predict is not None
    assert measured.compile.samples_s == (0.25,)
    assert measured.first_load is not None
    assert (measured.load.samples_s, measured.first_load.samples_s) == ((0.05, 0.04), (0.5,))
    assert (measured.predict.samples_s, measured.predict.warmups_s) == ((0.002, 0.001, 0.003), (0.004,))
    assert measured.before is not None
    assert (measured.before.thermal_state, measured.before.power_source) == ("nominal", "AC Power")
    assert (measured.origin, measured.measured_at) == ("measured", "2026-01-31T12:00:00Z")
    plan = profile.plans[0]
    assert (plan.chip, plan.settings[0].compute_units, tuple(op.weight for op in rows(plan))) == (
        "a17-pro",
        "cpu_and_ne",
        (0.75, 0.25),
    )


def test_power_modes_are_kept_apart(tmp_path: Path) -> None:
    low = runner_setting(power_mode="low power", before=LOW, after=LOW, predict_s=[0.004, 0.004, 0.005])
    profile = import_files([write(tmp_path, runner_setting(), low)])
    modes = [(m.machine.power_mode, m.predict.statistics.median) for m in profile.measurements if m.predict]
    assert modes == [("normal", 0.002), ("low power", 0.004)]
    assert len(profile.plans) == 1
    assert texts(profile, "thermal-state") == [
        "The thermal state was serious, in which the system slows processors down."
    ]


def test_a_power_mode_that_changes_is_no_measurement(tmp_path: Path) -> None:
    profile = import_files([write(tmp_path, runner_setting(after=LOW))])
    assert profile.measurements == ()
    assert texts(profile, "not-measured") == [
        "cpu_and_ne, normal was not measured: the power mode changed while this was timed."
    ]


def test_each_setting_has_its_plan(tmp_path: Path) -> None:
    profile = import_files([write(tmp_path, runner_setting(), runner_setting(units="all"))])
    (plan,) = profile.plans
    assert [setting.compute_units for setting in plan.settings] == ["cpu_and_ne", "all"]
    assert len(profile.ops) == 2


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        (("cpu_only",), ("unknown", "unknown")),
        (("cpu_only", "cpu_and_ne"), ("yes", "no")),
        (("cpu_and_ne", "all"), ("yes", "no")),
    ],
)
def test_support_is_known_where_a_setting_allows_the_unit(
    units: tuple[str, ...], expected: tuple[str, ...], tmp_path: Path
) -> None:
    """Core ML lists the units that the setting allows: that it leaves one out says nothing otherwise."""
    cpu_only = [{**op, "supported": ["cpu"], "preferred": "cpu"} for op in runner_setting()["plan"]]
    results = [
        runner_setting(units=one, **({"plan": cpu_only} if one == "cpu_only" else {})) for one in units
    ]
    (plan,) = import_files([write(tmp_path, *results)]).plans
    assert tuple(op.supported["neural_engine"] for op in plan.ops) == expected
    assert {op.supported["cpu"] for op in plan.ops} == {"yes"}


def test_shares_alone_give_no_planned_cost(tmp_path: Path) -> None:
    profile = import_files([write(tmp_path, runner_setting(), runner_setting(units="all"))])
    rows = [line.split() for line in write_terminal(document_of(profile), width=100).splitlines()]
    assert ["cpu_and_ne", "1", "–", "1", "1", "–"] in rows
    assert ["all", "1", "0", "1", "1", "–"] in rows
    assert "0 ns" not in write_terminal(side_by_side_document((profile,)), width=100)


def test_failures_cost_their_setting_alone(tmp_path: Path) -> None:
    results = [
        runner_setting(units="all"),
        failed("load", units="cpu_and_gpu", predict_s=[], load_s=[], plan=None),
        failed("predict", "crashed", units="cpu_only", predict_s=[], after=None, plan=None),
    ]
    profile = import_files([write(tmp_path, *results)])
    assert [measured.compute_units for measured in profile.measurements] == ["all"]
    assert texts(profile, "not-measured") == [
        "cpu_and_gpu, normal was not measured: load: error code: -14. (com.apple.CoreML -14).",
        "cpu_only, normal was not measured: predict: error code: -14. (com.apple.CoreML -14).",
    ]
    assert {f.exit_code for f in profile.findings if f.severity == "error"} == {6}


@pytest.mark.parametrize("status", ["done", "crashed"])
def test_failures_of_later_steps_leave_the_times(status: str, tmp_path: Path) -> None:
    one = failed("plan", status, plan=None)
    profile = import_files([write(tmp_path, one)])
    assert len(profile.measurements) == 1
    assert texts(profile, "step-failed") == [
        "cpu_and_ne, normal: plan: error code: -14. (com.apple.CoreML -14)."
    ]


def test_a_crash_in_the_predictions_leaves_none(tmp_path: Path) -> None:
    assert import_files([write(tmp_path, failed("predict", "crashed"))]).measurements == ()


def test_other_ways_to_predict(tmp_path: Path) -> None:
    one = runner_setting(
        async_s=[0.004, 0.002],
        throughput={"in_flight": 4, "predictions": 100, "wall_s": 0.5},
        backings={"samples_s": [0.001], "used": ["a"], "ignored": ["b"]},
        largest_footprint_bytes=5_000_000,
    )
    profile = import_files([write(tmp_path, one)])
    (text,) = texts(profile, "other-predictions")
    assert "asynchronous predictions take 3.00 ms" in text
    assert "4 in flight reach 200.0 predictions per second" in text
    assert "buffers take 1.00 ms (used for 1, ignored for b)" in text
    assert profile.measurement.peak_memory_bytes == 5_000_000


@pytest.mark.parametrize(
    ("key", "what"), [("is_simulator", "a simulator"), ("is_virtual", "a virtual machine")]
)
def test_what_is_no_device_is_said_to_be_none(key: str, what: str, tmp_path: Path) -> None:
    device = {"identifier": "iPhone16,1", "system": "iOS", "system_version": "18.2", key: True}
    (text,) = texts(import_files([write(tmp_path, runner_setting(), device=device)]), "virtual-machine")
    assert what in text


def test_samples_taken_in_the_background_are_said_to_be(tmp_path: Path) -> None:
    one = runner_setting(in_background={"load": [0], "predict": [1, 2]})
    (text,) = texts(import_files([write(tmp_path, one)]), "taken-in-background")
    assert text.endswith("1 of load, 2 of predict.")


def test_runs_that_did_not_end(tmp_path: Path) -> None:
    running = runner_setting(status="running", step="load", units="all", predict_s=[], plan=None)
    profile = import_files([write(tmp_path, runner_setting(), running, complete=False)])
    assert len(profile.measurements) == 1
    assert texts(profile, "incomplete-run")
    assert texts(profile, "not-measured") == [
        "all, normal was not measured: the app was still in the step 'load'."
    ]


def test_plans_without_places(tmp_path: Path) -> None:
    ops = [{"function": "main", "type": "ios16.relu", "outputs": ["a"], "place": [0]}]
    profile = import_files([write(tmp_path, runner_setting(plan=ops))])
    assert profile.plans == ()
    assert texts(profile, "core-ml-plan-empty")


def test_several_functions(tmp_path: Path) -> None:
    plan = [{"function": "prefill", "type": "ios18.relu", "outputs": ["a"], "place": [0], "preferred": "cpu"}]
    results = [runner_setting(function="main"), runner_setting(function="prefill", plan=plan)]
    profile = import_files([write(tmp_path, *results)])
    assert [measured.settings.function for measured in profile.measurements] == ["main", "prefill"]
    assert set(profile.ops.function) == {"main", "prefill"}
    assert len(profile.plans) == 1


@pytest.fixture(scope="module")
def model() -> Model:
    def body(x: Any) -> Any:
        return mb.tanh(x=mb.relu(x=x, name="a"), name="b")

    return programs.build(body, {"x": np.zeros((1, 8), np.float16)})


def test_several_models(tmp_path: Path, model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, runner_setting(), runner_setting("large"))
    assert [profile.model.path for profile in read_any(path)] == ["small", "large"]
    with pytest.raises(UsageError, match=r"holds results of 2 models \(small, large\)"):
        import_files([path])
    with pytest.raises(UsageError, match=r"(?m)and none of m$"):
        import_files([path], model)
    assert main(["compare", str(path)]) == 0
    assert "small" in capsys.readouterr().out


def test_operations_are_joined_to_the_model(tmp_path: Path, model: Model) -> None:
    profile = import_files([write(tmp_path, runner_setting())], model)
    view = profile.plans[0].view()
    assert [(op.name, op.unit) for op in rows(view.plan, view.compute_units)] == [
        ("a", "neural_engine"),
        ("b", "cpu"),
    ]


def test_a_device_that_the_user_names(tmp_path: Path) -> None:
    path = write(tmp_path, runner_setting())
    assert import_files([path], device="iphone-14", system="iOS 17.0").measurement.label == (
        "Core ML on iPhone 14, iOS 17.0, from results.json"
    )


def test_devices_without_a_known_name(tmp_path: Path) -> None:
    mac = {"identifier": "Mac99,1", "processor": "Apple M2", "system": "macOS", "system_version": "15.1"}
    new = {"identifier": "iPhone99,1", "system": "iOS", "system_version": "30.0"}
    for device, label in ((mac, "M2, macOS 15.1"), (new, "iPhone99,1, iOS 30.0")):
        path = write(tmp_path, runner_setting(), device=device)
        assert import_files([path]).measurement.label == f"Core ML on {label}, from results.json"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schema": "coremlscope.runner/9"}, "has the schema coremlscope.runner/9"),
        ({"results": []}, "holds no results"),
        ({"results": 3}, "are damaged"),
        ({"device": {}}, "are damaged"),
        ({"results": [runner_setting(predict_s=["1"])]}, "are damaged"),
        ({"results": [runner_setting(predict_s=[-1.0])]}, "are damaged"),
        ({"results": [runner_setting(predict_s=[1e300])]}, "are damaged"),
        ({"results": [runner_setting(predict_s=[True])]}, "are damaged"),
        ({"results": [runner_setting(units="npu")]}, "invalid compute units 'npu'"),
        ({"results": [runner_setting(status="great")]}, "are damaged"),
        ({"results": [runner_setting()] * 10_001}, "are damaged"),
    ],
)
def test_damaged_results(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, **{"results": [runner_setting()], **changed})
    with pytest.raises(UsageError, match=message) as caught:
        import_files([path])
    assert caught.value.hint
