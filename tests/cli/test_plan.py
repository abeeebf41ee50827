"""`coremlscope plan` and `coremlscope devices`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coremlscope import api
from coremlscope.cli import main
from coremlscope.devices import find_device
from coremlscope.measure.coreml.plan import PlansOfModel
from coremlscope.results.profile import Profile

pytestmark = pytest.mark.usefixtures("_read_once")


def planned(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    assert main(["plan", *map(str, arguments), "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("width", ["80", "140"])
def test_plan(
    sample: Path, width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert main(["plan", str(sample), "--device", "iphone-15-pro", "--os", "18"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("sample.mlpackage\n")
    assert "iPhone 15 Pro (A17 Pro), iOS 18" in out
    assert "●" in out
    assert max(map(len, out.splitlines())) <= int(width)


def test_plan_needs_no_weights(hollow: Path, sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = planned(capsys, sample, "--device", "m1", "--os", "15")
    again = planned(capsys, hollow, "--device", "m1", "--os", "15")
    marks = [[(op["id"], op["choices"]["all"]["unit"]) for op in plan["ops"]] for plan in (first, again)]
    assert marks[0] == marks[1]


def test_every_setting(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, sample, "--device", "m4", "--compute-units", "every")
    settings = [one["compute_units"] for one in plan["settings"]]
    assert settings == ["all", "cpu_and_ne", "cpu_and_gpu", "cpu_only"]
    assert {op["choices"]["cpu_only"]["unit"] for op in plan["ops"]} == {"cpu"}
    assert main(["plan", str(sample), "--device", "m4", "--compute-units", "every"]) == 0
    assert "Settings side by side" in capsys.readouterr().out


def test_one_setting(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, sample, "--device", "m4", "--compute-units", "cpu_only")
    assert [one["compute_units"] for one in plan["settings"]] == ["cpu_only"]
    choices = [op["choices"]["cpu_only"] for op in plan["ops"]]
    assert {len(op["choices"]) for op in plan["ops"]} == {1}
    assert {choice["unit"] for choice in choices} == {"cpu"}
    assert sum(choice["weight"] for choice in choices) == pytest.approx(1)


def test_ids_are_those_of_the_file(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ops = planned(capsys, sample, "--device", "m1")["ops"]
    ids = {op["id"] for op in ops if not op["inserted"]}
    assert main(["inspect", str(sample), "--ops", "--json", "-"]) == 0
    listed = set(json.loads(capsys.readouterr().out)["ops"]["id"])
    assert ids <= listed


def test_shapes(doubler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = planned(capsys, doubler, "--device", "m1")
    long = planned(capsys, doubler, "--device", "m1", "--shape", "row=1x9")
    cost = [plan["ops"][2]["cost_ms"]["classic_cpu"] for plan in (short, long)]
    assert cost[1] == pytest.approx(cost[0] * 9 / 4)


def test_plan_to_a_file(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    assert main(["plan", str(sample), "--device", "m1", "--json", str(path), "--quiet"]) == 0
    assert json.loads(path.read_text())["schema"] == "coremlscope.plan/1"
    assert capsys.readouterr().out == ""


def test_several_devices(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(sample), "--device", "m1,iphone-15-pro", "--json", "-"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert [(plan["schema"], plan["chip"]) for plan in plans] == [
        ("coremlscope.plan/1", "m1"),
        ("coremlscope.plan/1", "a17-pro"),
    ]
    alone = planned(capsys, sample, "--device", "m1")
    assert plans[0] == {key: value for key, value in alone.items() if key != "answers"}
    assert main(["plan", str(sample), "--device", "m1,iphone-15-pro"]) == 0
    out = capsys.readouterr().out
    assert out.index("M1") < out.index("iPhone 15 Pro (A17 Pro)")


def test_reports(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [tmp_path / f"r.{kind}" for kind in ("json", "html", "md", "csv", "txt", "trace.json")]
    options = [part for report in reports for part in ("-o", str(report))]
    assert main(["plan", str(sample), "--device", "m1,a14", "--compute-units", "every", *options]) == 0
    assert capsys.readouterr().err.splitlines() == [f"wrote {report}" for report in reports]
    profile = Profile.load(reports[0])
    assert [(plan.chip, len(plan.settings)) for plan in profile.plans] == [("m1", 4), ("a14", 4)]
    assert not profile.measurements
    assert "coremlscope.profile/2" in reports[1].read_text()


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--device", "iphone-15-pr"], "unknown device 'iphone-15-pr'", "did you mean iPhone 15 Pro"),
        (["--device", "all"], "unknown device 'all'", "every for all chips, or all-current"),
        (["--device", "m1", "--os", "99"], "unknown macOS version 99", "did you mean macOS 27"),
        (["--device", "m1", "--compute-units", "ane"], "invalid compute units 'ane'", "all, cpu_and_ne"),
        (["--device", "m1", "--against-rules"], "--against-rules and --share compare", "on a Mac"),
        (["--share", "evidence.json"], "--against-rules and --share compare", "`coremlscope import`"),
    ],
)
def test_refusals(
    sample: Path, arguments: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(sample), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert hint in error


def test_on_a_mac_core_ml_is_asked(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The drop-in runtime replaces Core ML."""
    monkeypatch.setattr("coremlscope.cli.plan.sys.platform", "darwin")
    monkeypatch.setattr("coremlscope.measure.coreml.plan.this_mac", lambda: find_device("m1", "15"))
    functions = {
        "main": [{"outputs": ["no_such_value"], "preferred": "cpu", "supported": ["cpu"], "weight": 1}]
    }
    answer = PlansOfModel(functions=functions)
    monkeypatch.setattr("coremlscope.measure.coreml.plan.ask_core_ml", lambda *_, **__: answer)
    shared = tmp_path / "evidence.json"
    assert main(["plan", str(sample), "--against-rules", "--share", str(shared)]) == 0
    assert json.loads(shared.read_text())["plans"][0]["compared"] == 0
    out = capsys.readouterr().out
    assert "planned by Apple's Core ML on this Mac" in out
    assert "Agreement with Core ML" in out
    assert "no operation has a unit in both plans" in out
    plan = planned(capsys, sample)
    assert plan["cost_model"] == "this Mac"
    report = tmp_path / "both.json"
    assert main(["plan", str(sample), "-o", str(report), "--quiet"]) == 0
    assert [plan.planner for plan in Profile.load(report).plans] == ["Core ML", "rules"]
    assert main(["plan", str(sample), "--os", "18"]) == 2
    assert "--os needs --device" in capsys.readouterr().err


def test_devices(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert "a17-pro" in out
    assert "MacBook Pro 14-inch (M5)" in out
    assert main(["devices", "iphone-15-pro"]) == 0
    assert "hollance/neural-engine" in capsys.readouterr().out
    assert main(["devices", "m4", "--json", "-"]) == 0
    (chip,) = json.loads(capsys.readouterr().out)["chips"]
    assert chip["id"] == "m4"
    assert main(["devices", "m44"]) == 2
    assert "did you mean m4" in capsys.readouterr().err


@pytest.mark.parametrize("width", ["60", "140"])
def test_explain(
    sample: Path, width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert main(["plan", str(sample), "--device", "m4", "--explain", "conv"]) == 0
    out = capsys.readouterr().out
    assert "Rules that apply" in out
    assert "If it had to run elsewhere" in out
    assert max(map(len, out.splitlines())) <= int(width)


def test_explain_as_json_and_markdown(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "why.md"
    found = planned(capsys, sample, "--device", "m4", "--explain", "conv", "-o", path)
    assert found["schema"] == "coremlscope.explanation/1"
    assert found["ops"][0]["type"] == "conv"
    assert path.read_text(encoding="utf-8").startswith("## sample.mlpackage")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "m4", "--explain", "no_such"], "no planned operation"),
        (["--device", "m4,m1", "--explain", "conv"], "one device under one setting"),
        (["--device", "m4", "--compute-units", "every", "--explain", "conv"], "one device under one setting"),
        (["--explain", "conv"], "--device is missing"),
    ],
)
def test_explain_refuses(
    sample: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(sample), *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_what_each_reason_costs(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables, JSON and Markdown tell the same."""
    plan = planned(capsys, sample, "--device", "m1", "--os", "15")
    found = plan["settings"][0]["what_ifs"]
    total = plan["settings"][0]["functions"]["main"]["total_ms"]
    assert found
    for one in found:
        assert one["planned_ms"] + one["saved_ms"] == pytest.approx(total)
    assert main(["plan", str(sample), "--device", "m1", "--os", "15"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert all(one["effect"] in out for one in found if one["hypothesis"] == "without")


def test_a_plan_has_the_estimate_of_estimate(sample: Path) -> None:
    planned = api.plan(sample, ["m1", "a17-pro"], compute_units=["all", "cpu_only"])
    estimated = api.estimate(sample, ["m1", "a17-pro"], compute_units=["all", "cpu_only"])
    assert [e.latency for e in planned.estimates] == [e.latency for e in estimated.estimates]
