"""Verbs that meet Core ML where it fails: each names the setting and the phase, and keeps the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest

from coremlscope import api
from coremlscope.api.core_ml_plans import plan_by_core_ml
from coremlscope.base.errors import CoremlscopeError, EngineError, LimitError
from coremlscope.base.findings import Finding
from coremlscope.cli.predict import predict_files
from coremlscope.devices.targets import Targets
from coremlscope.measure.coreml.units import UNITS_VARIABLE
from coremlscope.measure.effort import Effort
from coremlscope.model.subject import Subject
from coremlscope.results.profile import Profile
from coremlscope.studies.isolation.isolate import isolate
from coremlscope.studies.sweep.expansion import Expander
from coremlscope.studies.sweep.jobs import Measuring
from coremlscope.studies.sweep.wanted import Wanted
from coremlscope.studies.sweep.work import run_job
from coremlscope.verification.verify import verify
from tests.support import converted_models
from tests.support.coreml_children import as_a_mac
from tests.support.faulty_core_ml import FAULTS, PHASE_OF, PLAN_FAULTS, WRONG
from tests.support.preloaded import CAN_FORK

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="Core ML itself has no faults to order")

_FAILING, _SOUND = "cpu_and_ne", "cpu_only"
#: Hanging processes are ended after so many seconds; sound ones take less.
_PATIENCE_S = 10 if CAN_FORK else 60
_EFFORT = Effort(compile_iterations=1, load_iterations=1, warmups=0, timeout_s=_PATIENCE_S)
#: What a verb kept: the settings with a result, and its findings.
_Kept = tuple[set[str], tuple[Finding, ...]]


def _profile(package: Path, folder: Path) -> _Kept:
    profile = api.profile(package, compute_units=[_FAILING, _SOUND], iterations=2, effort=_EFFORT)
    whole = [one for one in profile.measurements if one.partial is None]
    findings = (*profile.findings, *(f for one in profile.measurements for f in one.findings))
    return {one.compute_units for one in whole}, findings


def _compare(package: Path, folder: Path) -> _Kept:
    units = Targets(compute_units=(_FAILING, _SOUND))
    compared = api.compare(package, package, devices=units, iterations=2, effort=_EFFORT)
    profiles = compared.profiles
    whole = [one for profile in profiles for one in profile.measurements if one.partial is None]
    findings = [finding for profile in profiles for finding in profile.findings]
    findings += [f for profile in profiles for one in profile.measurements for f in one.findings]
    return {one.compute_units for one in whole}, tuple(findings)


def _verify(package: Path, folder: Path) -> _Kept:
    found = verify(package, package, compute_units=[_FAILING, _SOUND], effort=_EFFORT)
    assert not found.passed
    passed = {one.run: one.passed for one in found.outputs}
    # Each setting that was asked for has a row for each output, of which there is one.
    assert passed.keys() >= {_FAILING, _SOUND}
    return {run for run, has_passed in passed.items() if has_passed} - {"fp32", "fp16"}, found.findings


def _isolate(package: Path, folder: Path) -> _Kept:
    part = isolate(
        Subject(package),
        folder / "part.mlpackage",
        span="..",
        devices=Targets(compute_units=(_FAILING, _SOUND)),
        iterations=2,
        effort=_EFFORT,
    )
    (output,) = part.outputs
    kept = {name for name, difference in output.difference.items() if difference is not None} - {"here"}
    measured = {one.compute_units for one in part.profile.measurements if one.partial is None}
    findings = (*part.profile.findings, *(f for one in part.profile.measurements for f in one.findings))
    return kept & measured, findings


def _predict(package: Path, folder: Path) -> _Kept:
    kept, findings = set(), []
    np.save(folder / "x.npy", np.zeros((2, 8), np.float32))
    given = ([("x", str(folder / "x.npy"))], {}, "center-crop", None, "fp32", "coreml", _EFFORT)
    for units in (_FAILING, _SOUND):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(UNITS_VARIABLE, units)
            try:
                predict_files(package, *given)
                kept.add(units)
            except CoremlscopeError as error:
                text, code = error.message, error.exit_code
                findings.append(Finding(id="", severity="error", text=text, hint=error.hint, exit_code=code))
    return kept, tuple(findings)


def _sweep(package: Path, folder: Path) -> _Kept:
    measuring = Measuring(iterations=2, timeout_s=_PATIENCE_S)
    wanted = Wanted(compute_units=(_FAILING, _SOUND), measuring=measuring)
    rows = [row for job in Expander(known={}).jobs_of_path(package, wanted) for row in run_job(job)]
    assert [row.compute_units for row in rows] == [_FAILING, _SOUND]
    kept = {row.compute_units for row in rows if not row.failure and row.measured_s is not None}
    failed = [
        Finding(id="", severity="error", text=row.failure, hint=row.hint, exit_code=row.exit_code)
        for row in rows
        if row.failure
    ]
    return kept, tuple(failed)


_VERBS: Mapping[str, Callable[[Path, Path], _Kept]] = {
    "profile": _profile,
    "compare": _compare,
    "verify": _verify,
    "isolate": _isolate,
    "predict": _predict,
    "sweep": _sweep,
}
#: Pairs that show one of each; all others take minutes.
_QUICK = {("profile", "load aborts"), ("verify", "predict hangs"), ("verify", "load fails")}
_QUICK |= {("isolate", "predict fails"), ("predict", "predict aborts"), ("predict", "load fails")}
_QUICK |= {("compare", "load fails"), ("sweep", "predict is killed")}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp(precision=ct.precision.FLOAT16).save(str(path))
    return path


@pytest.mark.usefixtures("free_units")
@pytest.mark.parametrize(
    ("verb", "fault"),
    [
        pytest.param(verb, fault, marks=() if (verb, fault) in _QUICK else pytest.mark.long)
        for verb in _VERBS
        for fault in FAULTS
    ],
)
def test_a_failure_costs_its_setting(
    verb: str, fault: str, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_a_mac(monkeypatch, fault)
    kept, findings = _VERBS[verb](package, tmp_path)
    assert kept == {_SOUND}
    failed = [f for f in findings if f.severity == "error" and _FAILING in f.text]
    assert failed
    # Only a sweep has warm-ups.
    phase = PHASE_OF[fault].replace("predict", "warm-up" if verb == "sweep" else "predict")
    assert all(f"(phase: {phase})" in finding.text for finding in failed)
    assert {finding.exit_code for finding in failed} <= {EngineError.exit_code, LimitError.exit_code}


@pytest.mark.usefixtures("free_units")
@pytest.mark.parametrize("verb", ["verify", "isolate"])
@pytest.mark.parametrize("fault", WRONG)
def test_wrong_outputs_are_no_agreement(
    verb: str, fault: str, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_a_mac(monkeypatch, fault)
    kept, _ = _VERBS[verb](package, tmp_path)
    assert kept == {_SOUND}


def _plan(package: Path) -> Profile:
    return plan_by_core_ml(package, compute_units=[_FAILING, _SOUND], effort=_EFFORT)


def _measure_and_plan(package: Path) -> Profile:
    return api.profile(package, compute_units=[_FAILING, _SOUND], iterations=2, effort=_EFFORT)


@pytest.mark.usefixtures("free_units")
@pytest.mark.parametrize(
    ("ask", "fault"),
    [
        pytest.param(ask, fault, marks=() if fault == quick else pytest.mark.long)
        for ask, quick in ((_plan, "plan hangs"), (_measure_and_plan, "plan aborts"))
        for fault in PLAN_FAULTS
    ],
)
def test_a_plan_that_fails_costs_its_setting(
    ask: Callable[[Path], Profile], fault: str, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_a_mac(monkeypatch, fault)
    profile = ask(package)
    settings = [s.compute_units for plan in profile.plans if plan.planner == "Core ML" for s in plan.settings]
    assert settings == [_SOUND]
    (failed,) = (f for f in profile.findings if f.id == "no-core-ml-plan")
    assert f"under {_FAILING}" in failed.text
    assert "(phase: plan)" in failed.text
    # A measurement is whole without a plan.
    assert bool(failed.exit_code) == (not profile.measurements)
    assert all(one.partial is None for one in profile.measurements)
