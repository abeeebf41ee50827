"""Profiles that earlier versions saved: the same figures, groups, plans and estimates."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.devices import SETTINGS, UNITS
from coremlscope.results.encoding import PROFILE
from coremlscope.results.estimate import Estimate
from coremlscope.results.plan import PlanView
from coremlscope.results.profile import Profile
from coremlscope.results.schema import json_schema
from tests.support.json_schemas import violations

FOLDER = Path(__file__).parents[1] / "data"
#: A program with a loop in half precision and two devices' plans; a pipeline with a stage that is not in the
#: file; trees without plans.
NAMES = ("program", "pipeline", "classical")


def path_of(name: str) -> Path:
    return FOLDER / f"profile-v1-{name}.json"


def saved(name: str) -> dict[str, Any]:
    """The file's own values."""
    data: dict[str, Any] = json.loads(path_of(name).read_text())
    assert data["schema"] == "coremlscope.profile/1"
    return data


@pytest.mark.parametrize("name", NAMES)
def test_the_model_and_its_operations(name: str) -> None:
    profile, old = Profile.load(path_of(name)), saved(name)
    for key in ("path", "kind", "container", "platforms", "parameters", "weights_bytes", "size_bytes"):
        assert getattr(profile.model, key) == old["model"][key], key
    assert profile.model.main.name == old["model"]["functions"][0]["name"]
    assert [stage.name for stage in profile.model.stages] == [s["name"] for s in old["model"]["stages"]]
    work = profile.model.main.work
    if work is not None:
        assert work.flops == old["model"]["functions"][0]["work"]["flops"]
    table = json.loads(json.dumps(profile.to_json()["ops"]))
    for column in table.keys() - {"output_names", "details"}:
        assert table[column] == old["ops"][column], column
    # Names of results were not recorded, and neither was when and where a profile was made.
    assert set(profile.ops.output_names) == {()}
    assert (profile.made.at, profile.made.version, profile.made.machine) == ("", "", None)


@pytest.mark.parametrize("name", NAMES)
def test_phases_and_where_they_were_measured(name: str) -> None:
    profile, old = Profile.load(path_of(name)), saved(name)
    (measured,) = profile.measurements
    for phase in ("compile", "load", "predict"):
        found, expected = measured.phases[phase], old[phase]
        assert list(found.samples_s) == expected["samples_s"]
        assert list(found.warmups_s) == expected["warmups_s"]
        assert found.statistics.median == expected["statistics"]["median"]
        assert found.statistics.p95 == expected["statistics"]["p95"]
        assert found.origin == "measured"
    host = old["host"]
    assert (measured.label, measured.threads) == (host["label"], host["threads"])
    assert (measured.runtime.id, measured.runtime.version) == (host["engine"], host["engine_version"])
    assert measured.runtime.name == "ONNX Runtime"
    for key in ("processor", "cores", "os", "python"):
        assert getattr(measured.machine, key) == host[key]
    # What was asked for is a setting; this host has no compute units.
    assert measured.settings.compute_units == old["request"]["compute_units"]
    assert (measured.compute_units, measured.measured_at) == ("", "")
    for key in ("iterations", "seed", "precision", "random_weights", "warmups", "function"):
        assert getattr(measured.settings, key) == old["request"][key], key
    assert measured.predict is not None
    assert 1 / measured.predict.statistics.mean == pytest.approx(old["predictions_per_s"])


@pytest.mark.parametrize("name", NAMES)
def test_groups_stages_and_findings(name: str) -> None:
    profile, old = Profile.load(path_of(name)), saved(name)
    measured = profile.measurement
    assert len(measured.groups) == len(old["groups"])
    for found, expected in zip(measured.groups, old["groups"], strict=True):
        assert [profile.ops.id[row] for row in found.ops] == expected["op_ids"]
        assert [list(node) for node in found.engine_nodes] == expected["engine_nodes"]
        for key in ("label", "wall_s", "share", "low_s", "high_s", "stage"):
            assert getattr(found, key) == expected[key]
    assert list(measured.status) == old["ops"]["status"]
    assert list(measured.group) == old["ops"]["group"]
    nodes = measured.nodes
    assert nodes is not None
    assert nodes.run_s == old["nodes"]["run_s"]
    assert nodes.profiler_overhead_s == old["nodes"]["profiler_overhead_s"]
    assert [(stage.name, stage.absent, stage.run_s) for stage in measured.stages] == [
        (stage["name"], stage["absent"], stage["run_s"]) for stage in old["stages"]
    ]
    # All of them were made while measuring.
    assert [(f.id, f.severity, f.text, f.hint, list(f.ops)) for f in measured.findings] == [
        (f["id"], f["severity"], f["text"], f["hint"], f["ops"]) for f in old["findings"]
    ]
    assert profile.findings == ()


def test_ranges_of_half_precision() -> None:
    measured, old = Profile.load(path_of("program")).measurement, saved("program")
    assert old["request"]["precision"] == "fp16"
    assert measured.fp16 is not None
    for key in ("largest", "overflows", "infinities", "nans"):
        assert list(getattr(measured.fp16, key)) == old["ops"][f"fp16_{key}"]
    assert any(largest is not None for largest in measured.fp16.largest)
    # Empty columns are not ranges.
    assert Profile.load(path_of("pipeline")).measurement.fp16 is None


@pytest.mark.parametrize("name", NAMES)
def test_plans_operation_by_operation(name: str) -> None:
    profile, old = Profile.load(path_of(name)), saved(name)
    assert len(profile.plans) == len(old["plans"])
    for plan, expected in zip(profile.plans, old["plans"], strict=True):
        for key in ("device", "chip", "os", "cost_model"):
            assert getattr(plan, key) == expected[key]
        assert list(plan.notes) == expected["notes"]
        assert (plan.planner, plan.origin) == ("rules", "planned")
        assert len(plan.settings) == len(expected["settings"]) == len(SETTINGS)
        for setting, of_old in zip(plan.settings, expected["settings"], strict=True):
            assert setting.compute_units == of_old["compute_units"]
            assert setting.total_ms == of_old["total_ms"]
            assert setting.switches == of_old["switches"]
            check_rows(profile, plan.view(profile.ops, setting), expected, of_old)


def check_rows(profile: Profile, view: PlanView, old: dict[str, Any], setting: dict[str, Any]) -> None:
    """Every row of a view says what the columns of the file say."""
    ids = [*profile.ops.id, *(op["id"] for op in old["inserted"])]
    columns = {id_: column for column, id_ in enumerate(ids)}
    backends = list(old["backends"])
    listed = [id_ for id_ in ids if old["supported"]["cpu"][columns[id_]] is not None]
    assert sorted(op.id for op in view.ops) == sorted(listed)
    assert [op.id for op in view.ops if not op.inserted] == [id_ for id_ in profile.ops.id if id_ in listed]
    for op in view.ops:
        column = columns[op.id]
        place = setting["backend"][column]
        backend = backends[place] if place >= 0 else None
        assert op.backend == backend
        assert op.unit == (None if backend is None else old["backends"][backend])
        assert op.planned_ms == (None if backend is None else old["cost_ms"][backend][column])
        assert op.cost_ms == {
            name: costs[column] for name, costs in old["cost_ms"].items() if costs[column] is not None
        }
        support = {1: "yes", 0: "no", -1: "unknown"}
        assert op.supported == {unit: support[old["supported"][unit][column]] for unit in UNITS}
        assert [reason.text for reason in op.why] == [
            old["reasons"][index]["text"] for index in old["why"][column]
        ]
        assert [reason.rule for reason in op.advice] == [
            old["reasons"][index]["rule"] for index in old["advice"][column]
        ]
        assert op.detour_ms == {
            unit: more[column] for unit, more in setting["detour_ms"].items() if more[column] is not None
        }
        assert op.inserted == (column >= len(profile.ops))


def test_the_cost_of_a_plan_is_that_of_its_function() -> None:
    program, pipeline = (Profile.load(path_of(name)) for name in ("program", "pipeline"))
    assert list(program.plans[0].settings[0].functions) == ["main"]
    # One of the two stages has no operations that could be planned.
    assert pipeline.ops.functions == ("model0/main", "model1/main")
    assert list(pipeline.plans[0].settings[0].functions) == ["model1/main"]
    assert list(pipeline.plans[0].view(pipeline.ops).functions()) == ["model1/main"]


def test_one_cost_of_several_stages_stays_one() -> None:
    old = saved("pipeline")
    for column in old["plans"][0]["supported"].values():
        column[0] = -1
    profile = Profile.from_json(old)
    plan = profile.plans[0]
    assert list(plan.settings[0].functions) == ["all stages"]
    assert plan.settings[0].total_ms == old["plans"][0]["settings"][0]["total_ms"]
    assert list(plan.view(profile.ops).functions()) == ["model0/main", "model1/main"]


def check_estimate(found: Estimate, old: dict[str, Any]) -> None:
    latency = found.latency
    assert [latency.value, latency.low, latency.high] == [
        old["latency"][key] for key in ("value", "low", "high")
    ]
    assert latency.origin == "estimated"
    assert (found.basis, found.bound, found.placement) == (old["basis"], old["bound"], old["placement"])


@pytest.mark.parametrize("name", ["program", "pipeline"])
def test_estimates_and_kernels(name: str) -> None:
    profile, old = Profile.load(path_of(name)), saved(name)
    settings = [(plan, setting) for plan in old["plans"] for setting in plan["settings"]]
    assert len(profile.estimates) == len(settings) == len(old["plans"]) * len(SETTINGS)
    for found, (plan, setting) in zip(profile.estimates, settings, strict=True):
        assert (found.device, found.chip, found.os) == (plan["device"], plan["chip"], plan["os"])
        assert found.compute_units == setting["compute_units"]
        check_estimate(found, setting["estimate"])
        assert found.parts == setting["estimate"]["parts"]
        for column in ("kernel_s", "kernel_unit", "kernel_bound"):
            assert list(getattr(found, column)) == setting["estimate"][column]
    members = [[row for row, k in enumerate(old["ops"]["kernel"]) if k == index] for index in range(100)]
    assert [list(kernel.ops) for kernel in profile.kernels] == members[: len(profile.kernels)]
    assert all(not rows for rows in members[len(profile.kernels) :])
    # The brief estimates of the file are those under the requested setting.
    headlines = list(profile.headline_estimates())
    for found, brief in zip(headlines, old["estimates"], strict=True):
        assert (found.device, found.compute_units) == (brief["device"], brief["compute_units"])
        assert list(found.left_out) == brief["left_out"]
        check_estimate(found, brief)


def test_estimates_of_profiles_without_plans() -> None:
    old = saved("program")
    old["plans"] = []
    profile = Profile.from_json(old)
    assert profile.plans == ()
    assert [e.device for e in profile.estimates] == ["M1", "iPhone 13"]
    for found, brief in zip(profile.estimates, old["estimates"], strict=True):
        check_estimate(found, brief)
        assert (found.kernel_s, found.parts, found.switches) == ((), {}, 0)


def test_kernels_that_hold_no_operation_of_the_table() -> None:
    old = saved("program")
    last = max(kernel for kernel in old["ops"]["kernel"] if kernel is not None)
    old["ops"]["kernel"] = [None if kernel == last else kernel for kernel in old["ops"]["kernel"]]
    profile = Profile.from_json(old)
    assert len(profile.kernels) == last + 1
    assert (profile.kernels[last].ops, profile.kernels[last].name) == ((), "")


@pytest.mark.parametrize("name", NAMES)
def test_saved_again_it_is_of_this_version(name: str, tmp_path: Path) -> None:
    profile = Profile.load(path_of(name))
    profile.save(tmp_path / "new.json")
    data = json.loads((tmp_path / "new.json").read_text())
    assert data["schema"] == PROFILE
    assert violations(data, json_schema(), json_schema()) == []
    assert Profile.load(tmp_path / "new.json") == profile


def test_the_first_version_had_fewer_columns() -> None:
    old = saved("classical")
    for key in ("estimates", "plans", "stages"):
        del old[key]
    del old["host"]["power_mode"]
    del old["request"]["precision"]
    later = {"layer", "layer_type", "inputs", "live_bytes", "kernel"}
    for column in [name for name in old["ops"] if name in later or name.startswith("fp16_")]:
        del old["ops"][column]
    for group in old["groups"]:
        for key in ("low_s", "high_s", "stage"):
            del group[key]
    profile = Profile.from_json(old)
    assert set(profile.ops.inputs) | set(profile.ops.live_bytes) | set(profile.ops.layer) == {None}
    assert (profile.plans, profile.estimates, profile.measurement.stages) == ((), (), ())
    assert profile.measurement.settings.precision == "fp32"
    assert {group.low_s for group in profile.measurement.groups} == {None}


def _without(*path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return change


def _with(value: object, *path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


DAMAGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "no host": _without("host"),
    "no request": _without("request"),
    "no predictions": _without("predict"),
    "no operations": _without("ops"),
    "no ids": _without("ops", "id"),
    "no model": _without("model"),
    "a group of an unknown operation": _with(["main/77"], "groups", 0, "op_ids"),
    "a group that is not there": _with(99, "ops", "group", 0),
    "a column too short": _without("ops", "flops", 0),
    "a kernel that is not there": _with(99, "ops", "kernel", 0),
    "a kernel that is not a number": _with("one", "ops", "kernel", 0),
    "operations that are not a table": _with(3, "ops"),
    "plans that are not a list": _with(3, "plans"),
    "a plan without support": _without("plans", 0, "supported"),
    "a plan's column too short": _without("plans", 0, "supported", "cpu", 0),
    "a plan without settings": _without("plans", 0, "settings"),
    "a setting without its total": _without("plans", 0, "settings", 0, "total_ms"),
    "an estimate of another type": _with("fast", "plans", 0, "settings", 0, "estimate"),
    "a phase of another type": _with([1.0], "load"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_files_are_refused(what: str, tmp_path: Path) -> None:
    data = copy.deepcopy(saved("program"))
    DAMAGES[what](data)
    path = tmp_path / "p.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError) as caught:
        Profile.load(path)
    assert caught.value.message.startswith(f"{path}: this profile is damaged: ")
    assert len(caught.value.message.splitlines()) == 1
    assert caught.value.hint


def test_fixtures_are_small() -> None:
    for name in NAMES:
        assert path_of(name).stat().st_size < 30_000
