"""Output backings and asynchronous predictions through pyobjc, whose modules are scripted."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest

from coremlscope import api
from coremlscope.base.errors import UsageError, how_to_install
from coremlscope.base.processes.child import ChildLimits
from coremlscope.cli import main
from coremlscope.formats import container
from coremlscope.measure.contract import MeasuredModel, resolve_settings
from coremlscope.measure.coreml.objective_c import PredictionModel, find_framework
from coremlscope.measure.coreml.other_predictions import OtherPhases, time_others
from coremlscope.measure.coreml.timing import CoreMLMeasurer
from coremlscope.measure.effort import Effort
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.encoding import decode, plain
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.results.profile import Profile
from coremlscope.runtime.execution.wiring import interface_of
from tests.support import converted_models, scripted_frameworks
from tests.support.coreml_children import TIMING_CHILD, child_over_frameworks

MODULE = "coremlscope.measure.coreml.predictions_child:time_other"
SETTINGS = Settings(
    compute_units="cpu_only", iterations=6, compile_iterations=1, load_iterations=1, warmups=2
)
IN_FLIGHT = ["async, 1 in flight", "async, 2 in flight", "async, 4 in flight"]
EVERY = ["output backings", *IN_FLIGHT]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp().save(str(path))
    return path


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children import `tests`."""
    monkeypatch.chdir(Path(__file__).parents[3])


def measure(package: Path, others: Callable[..., OtherPhases]) -> Measurement:
    model = container.read(package)
    measurer = CoreMLMeasurer(command=TIMING_CHILD, others=others)
    return measurer.measure(MeasuredModel.of(model, resolve_settings(model, SETTINGS)), SETTINGS)


def time_over_frameworks(fault: str = "") -> Callable[..., OtherPhases]:
    """Times other ways to predict over scripted modules of pyobjc."""
    return partial(time_others, command=child_over_frameworks(MODULE, fault))


@pytest.fixture(scope="module")
def request_file(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The request of a measurement, beside the compiled model and the values."""
    kept = tmp_path_factory.mktemp("kept") / "request"

    def keep(request: Path, *_: object, **__: object) -> OtherPhases:
        shutil.copytree(request.parent, kept)
        return {}, []

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(__file__).parents[3])
        measure(package, keep)
    return kept / "request.json"


def time_with(package: Path, request_file: Path, fault: str, patience_s: float = 60.0) -> OtherPhases:
    """Times other predictions alone, with the model of an earlier measurement."""
    _, interface = interface_of(container.read(package), None)
    return time_over_frameworks(fault)(
        request_file,
        interface,
        iterations=SETTINGS.iterations,
        limits=ChildLimits(),
        units="all",
        patience_s=patience_s,
    )


def test_other_ways_to_predict_are_phases_of_their_own(package: Path) -> None:
    measured = measure(package, time_over_frameworks())
    assert list(measured.phases) == ["compile", "first load", "load", "predict", *EVERY]
    assert measured.predict is not None
    for name, phase in measured.other_predictions.items():
        assert (len(phase.samples_s), phase.origin, phase.through_python) == (6, "measured", None)
        assert min(phase.samples_s) > 0
        assert len(phase.warmups_s) == (2 if name in ("output backings", IN_FLIGHT[0]) else 0)
    backings, rates = measured.findings
    assert (backings.id, rates.id) == ("output-backings", "asynchronous-predictions")
    assert backings.text == "Core ML, called through pyobjc, used 1 of 1 output backings."
    assert "through pyobjc" in rates.text
    assert all(f"with {number} in flight" in rates.text for number in (1, 2, 4))


def test_ignored_backings_are_told(package: Path, request_file: Path) -> None:
    phases, findings = time_with(package, request_file, "ignored")
    assert list(phases) == EVERY
    text = next(finding.text for finding in findings if finding.id == "output-backings")
    assert "used 0 of 1 output backings; it ignored those of " in text


@pytest.mark.parametrize(
    ("fault", "phases", "messages"),
    [
        ("no model", [], ["Output backings", "Asynchronous predictions"]),
        ("no outputs", [], ["Output backings", "Asynchronous predictions"]),
        ("late error", ["output backings"], ["Asynchronous predictions"]),
        ("abort", ["output backings"], ["Core ML aborted the process"]),
        ("old", ["output backings"], ["need macOS 14 or newer"]),
    ],
)
def test_a_failure_costs_its_own_phases_alone(
    package: Path, request_file: Path, fault: str, phases: list[str], messages: list[str]
) -> None:
    timed, findings = time_with(package, request_file, fault)
    assert list(timed) == phases
    failed = [finding for finding in findings if finding.severity == "error"]
    assert [finding.id for finding in failed] == ["other-predictions-not-timed"] * len(messages)
    for finding, message in zip(failed, messages, strict=True):
        assert message in finding.text
        assert "\n" not in finding.text
        assert finding.exit_code
        if fault in ("no model", "no outputs", "late error"):
            assert "scripted (com.apple.CoreML 0)" in finding.text


def test_a_handler_that_is_never_called_is_not_waited_for(package: Path, request_file: Path) -> None:
    phases, findings = time_with(package, request_file, "never", patience_s=4.0)
    assert list(phases) == ["output backings"]
    (failed,) = [finding for finding in findings if finding.severity == "error"]
    assert "asynchronous predictions under all gave no sign of life for 4 s" in failed.text


def test_without_pyobjc_nothing_is_harmed(package: Path) -> None:
    measured = measure(package, time_over_frameworks("absent"))
    assert measured.predict is not None
    assert measured.other_predictions == {}
    (finding,) = measured.findings
    assert finding.text == "Other ways to predict were not timed: pyobjc is not installed."
    assert (finding.severity, finding.hint) == ("warning", how_to_install("mac"))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (converted_models.accumulator, "the model has states"),
        (lambda: converted_models.inverter(ct.colorlayout.RGB), "is not a multi-array"),
    ],
)
def test_states_and_images_are_left_out(
    tmp_path: Path, make: Callable[[], ct.models.MLModel], reason: str
) -> None:
    path = tmp_path / "model.mlpackage"
    make().save(str(path))
    measured = measure(path, time_over_frameworks())
    (finding,) = measured.findings
    assert reason in finding.text
    assert (finding.severity, measured.other_predictions) == ("info", {})


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 17), (2, 0)])
def test_inputs_are_passed_as_they_are(
    monkeypatch: pytest.MonkeyPatch, dtype: str, shape: tuple[int, ...]
) -> None:
    """Rows of the scripted arrays are padded, as Core ML may do."""
    for name in ("CoreML", "Foundation", "objc"):
        monkeypatch.setitem(sys.modules, name, None)
    scripted_frameworks.install()
    monkeypatch.setattr(scripted_frameworks.MLModel, "__init__", lambda *_: None)
    model = PredictionModel(find_framework("MLPredictionOptions"), "model.mlmodelc", "cpu_only", "")
    value = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) + 1, dtype)
    provider = model.provider({"x": value})
    passed = provider.featureValueForName_("x").multiArrayValue()
    assert passed.view.dtype == value.dtype
    np.testing.assert_array_equal(passed.view, value)


@pytest.mark.usefixtures("mac")
def test_profile_asks_for_them_on_request_only(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others = "coremlscope.measure.coreml.other_predictions.time_others"
    monkeypatch.setattr(others, time_over_frameworks())
    options = {"compute_units": "cpu_only", "iterations": 2, "effort": Effort(load_iterations=1)}
    usual = api.profile(package, **options)  # type: ignore[arg-type]
    assert usual.measurement.other_predictions == {}
    profile = api.profile(package, other_predictions=True, **options)  # type: ignore[arg-type]
    assert list(profile.measurement.other_predictions) == EVERY
    reports = [
        write_terminal(document_of(profile), width=80, color=False),
        write_markdown(document_of(profile)),
    ]
    for shown in reports:
        assert all(name in shown for name in EVERY)
    assert decode(plain(profile), Profile) == profile
    assert (
        main(["profile", str(package), "--engine", "onnxruntime", "--other-predictions"])
        == UsageError.exit_code
    )
    assert "on a Mac only" in capsys.readouterr().err
