"""`profile` on a Mac; here the drop-in answers in Core ML's place."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import coremltools as ct
import pytest

from coremlscope import api
from coremlscope.base.errors import MissingDependencyError, UsageError, how_to_install
from coremlscope.cli import main
from coremlscope.measure.coreml.timing import CoreMLMeasurer
from coremlscope.measure.effort import Effort
from coremlscope.results.profile import Profile
from tests.support import converted_models
from tests.support.coreml_children import scripted_timing_child

QUICK = ("--iterations", "2", "--compile-iterations", "1", "--load-iterations", "1", "--warmups", "1")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp(precision=ct.precision.FLOAT16).save(str(path))
    return path


@pytest.mark.usefixtures("mac")
def test_core_ml_is_the_default_and_its_plan_stands_beside(package: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert main(["profile", str(package), *QUICK, "--quiet", "-o", str(report)]) == 0
    profile = Profile.load(str(report))
    assert [m.runtime.id for m in profile.measurements] == ["coreml"]
    planned = [(plan.planner, plan.device) for plan in profile.plans]
    assert planned[:2] == [("Core ML", "M1"), ("rules", "M1")]
    assert {planner for planner, _ in planned[2:]} == {"rules"}  # for the default devices


@pytest.mark.usefixtures("mac", "free_units")
def test_an_abort_costs_one_setting(package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything was timed; otherwise the measurement would be partial."""
    command = scripted_timing_child()
    abort = "if request['compute_units'] == 'all': os.abort()\nsend(coremltools"
    command = (*command[:2], command[2].replace("send(coremltools", abort, 1))
    monkeypatch.setattr(
        "coremlscope.measure.coreml.timing.CoreMLMeasurer", partial(CoreMLMeasurer, command=command)
    )
    report = tmp_path / "report.json"
    arguments = [str(package), *QUICK, "--compute-units", "every", "--quiet", "-o", str(report)]
    assert main(["profile", *arguments]) == 6
    profile = Profile.load(str(report))
    assert [m.compute_units for m in profile.measurements] == ["cpu_and_ne", "cpu_and_gpu", "cpu_only"]
    (finding,) = [finding for finding in profile.findings if finding.severity == "error"]
    assert "Core ML aborted the process (SIGABRT)" in finding.text
    assert [plan.planner for plan in profile.plans][:4] == ["Core ML"] * 3 + ["rules"]


@pytest.mark.usefixtures("mac", "free_units")
def test_models_are_compared_by_core_ml(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(package), str(package), *QUICK, "--quiet", "--json", "-"]) == 0
    (difference,) = json.loads(capsys.readouterr().out)["differences"]
    assert all(label.startswith("Core ML on ") for label in difference["measured"])
    assert set(difference["phases"]) == {"compile", "first load", "load", "predict"}
    assert difference["interleaved"] is False
    assert {plan["before"] for plan in difference["plans"]} == {"M1, all, planned by Core ML", "M1, all"}


@pytest.mark.usefixtures("mac")
def test_the_environment_names_the_default_engine(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COREMLSCOPE_ENGINE", "onnxruntime")
    quick = {"iterations": 1, "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0)}
    assert api.profile(package, **quick).measurement.runtime.id == "onnxruntime"
    assert api.profile(package, **quick, engine="coreml").measurement.runtime.id == "coreml"


@pytest.mark.usefixtures("mac")
def test_core_ml_can_be_held_to_one_setting(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COREMLSCOPE_CORE_ML_UNITS", "cpu_only")
    quick = {"iterations": 1, "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0)}
    profile = api.profile(package, **quick, compute_units="all")
    measured = profile.measurement
    assert (measured.compute_units, measured.settings.compute_units) == ("cpu_only", "all")
    assert [finding.id for finding in measured.findings] == ["compute-units-held"]
    every = api.profile(package, **quick, compute_units="every")
    assert [one.compute_units for one in every.measurements] == ["cpu_only"]
    plan = next(plan for plan in profile.plans if plan.planner == "Core ML")
    assert [setting.compute_units for setting in plan.settings] == ["cpu_only"]
    monkeypatch.setenv("COREMLSCOPE_CORE_ML_UNITS", "npu")
    with pytest.raises(UsageError, match="invalid compute units 'npu'"):
        api.profile(package, **quick)


@pytest.mark.usefixtures("mac")
def test_the_embedded_engine_on_request(package: Path) -> None:
    quick = {"iterations": 1, "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0)}
    for asked in ({"engine": "onnxruntime"}, {"effort": Effort(load_iterations=1, threads=1)}):
        profile = api.profile(package, **{**quick, **asked}, compute_units="every")
        assert [m.runtime.id for m in profile.measurements] == ["onnxruntime"]
    with pytest.raises(UsageError, match="not for Core ML"):
        api.profile(package, effort=Effort(threads=1), engine="coreml")


@pytest.mark.usefixtures("mac")
def test_without_coremltools(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coremlscope.measure.coreml.files.importlib.util.find_spec", lambda _: None)
    quick = {"iterations": 1, "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0)}
    profile = api.profile(package, **quick)
    assert profile.measurement.runtime.id == "onnxruntime"
    (finding,) = [found for found in profile.findings if found.id == "core-ml-not-measured"]
    assert how_to_install("coreml") in finding.hint
    with pytest.raises(MissingDependencyError, match="not installed"):
        api.profile(package, engine="coreml")


@pytest.mark.usefixtures("mac")
def test_a_virtual_machine_is_held_to_the_cpu(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coremlscope.measure.coreml.units.is_virtual_machine", lambda: True)
    monkeypatch.delenv("COREMLSCOPE_CORE_ML_UNITS", raising=False)
    quick = {"iterations": 1, "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0)}
    measured = api.profile(package, **quick, compute_units="all").measurement
    assert measured.compute_units == "cpu_only"
    assert [finding.id for finding in measured.findings] == ["compute-units-held"]
    monkeypatch.setenv("COREMLSCOPE_CORE_ML_UNITS", "all")
    assert api.profile(package, **quick, compute_units="all").measurement.compute_units == "all"


def test_elsewhere_core_ml_is_refused(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if sys.platform == "darwin":
        pytest.skip("this is a Mac")
    assert main(["profile", str(package), "--engine", "coreml"]) == UsageError.exit_code
    assert "only on a Mac" in capsys.readouterr().err
