"""Core ML recorded by Instruments: the drop-in answers in Core ML's place, a scripted `xcrun` in Xcode's.

The tables that it plays back are built to published columns; none is a capture.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import coremltools as ct
import msgspec
import pytest

from coremlscope.base.errors import EngineError, MissingDependencyError, UsageError
from coremlscope.base.processes.child import ChildLimits
from coremlscope.cli import main
from coremlscope.devices import find_device
from coremlscope.formats import container
from coremlscope.measure.contract import MeasuredModel, Progress, resolve_settings
from coremlscope.measure.coreml.instruments import (
    InstrumentsRecorder,
    InstrumentsTimeouts,
    export_recording,
    require_instruments,
)
from coremlscope.measure.coreml.plan import ask_core_ml
from coremlscope.measure.coreml.timing import CoreMLMeasurer
from coremlscope.measure.coreml.tracing import TraceMeasurer
from coremlscope.measure.coreml.units import effective_units
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.results.profile import Profile
from tests.support import converted_models, recorded_files
from tests.support.coreml_children import PLAN_CHILD, TIMING_CHILD, child_over_dropin
from tests.support.preloaded import preloaded_child
from tests.support.scripted_xcrun import ScriptedXcrun

SHORT = Settings(iterations=4, compile_iterations=1, load_iterations=1, warmups=1, compute_units="cpu_and_ne")
QUICK = InstrumentsTimeouts(ask_s=60, start_s=60, stop_s=60, export_s=60)
OWN = '<process fmt="python3 (PID)"><pid>PID</pid></process>'
OTHER = '<process fmt="WindowServer (1)"/>'


def gpu_row(start: int, process: str) -> str:
    return recorded_files.row(
        f"<start-time>{start}</start-time><duration>1000000</duration>",
        f"<gpu-channel-name>Compute</gpu-channel-name>{process}",
    )


TABLES = {
    "toc": recorded_files.contents(
        "ane-hw-intervals",
        "metal-gpu-intervals",
        "coreml-os-signpost",
        "kdebug",
        target='<process type="attached" name="python3" pid="PID"/>',
    ),
    "ane-hw-intervals": recorded_files.document(recorded_files.ane([(500, 2), (510, 2), (520, 4)])),
    "metal-gpu-intervals": recorded_files.document(
        recorded_files.node("metal-gpu-intervals", (), [gpu_row(0, OWN), gpu_row(5_000_000, OTHER)])
    ),
    "coreml-os-signpost": recorded_files.document(recorded_files.core_ml([])),
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp(precision=ct.precision.FLOAT16).save(str(path))
    return path


def measure(
    package: Path, command: tuple[str, ...] = TIMING_CHILD, progress: Progress | None = None
) -> Measurement:
    model = container.read(package)
    measurer = TraceMeasurer(command=command, timeouts=QUICK, limits=ChildLimits(silence_s=60))
    subject = MeasuredModel.of(model, resolve_settings(model, Settings()))
    return measurer.measure(subject, SHORT, progress=progress)


def test_a_run_is_recorded(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xcrun = ScriptedXcrun(tmp_path, monkeypatch, TABLES)
    seen: list[tuple[str, int, int]] = []
    measured = measure(package, progress=lambda *state: seen.append(state))
    assert [phase for phase, done, _ in seen if done or phase in ("record", "export")] == [
        *("compile", "first load", "load", "warm-up", "record"),
        *["predict"] * 4,
        "export",
    ]
    recording = measured.recording
    assert recording is not None
    assert (recording.tool, recording.template, recording.predictions) == ("Instruments 27.0", "Core ML", 4)
    assert not recording.are_delimited
    ane, gpu = recording.units
    assert (ane.unit, ane.busy_s, ane.scope) == ("neural_engine", 0.008, "device")
    # Of the process that predicted, not of others.
    assert (gpu.unit, gpu.intervals, recording.target) == ("gpu", 1, gpu.processes[0].name)
    assert recording.tables["coreml-os-signpost"] == 0
    assert recording.tables["mps-hw-intervals"] is None
    assert measured.label.endswith(", recorded by Instruments 27.0")
    assert measured.predict is not None
    assert len(measured.predict.samples_s) == 4
    assert (measured.load, measured.compile, measured.compute_units) == (
        None,
        None,
        effective_units("cpu_and_ne"),
    )
    assert {finding.id for finding in measured.findings} == {
        "recorded",
        "device-wide",
        "predictions-not-delimited",
    }
    record = next(call for call in xcrun.calls if call[1] == "record")
    assert record[2:5] == ["--template", "Core ML", "--no-prompt"]
    assert record[-2] == "--attach"
    # Only tables of units, each in a process of its own.
    exported = [call[call.index("--xpath") + 1] for call in xcrun.calls if "--xpath" in call]
    assert len(exported) == 3
    assert not any("kdebug" in query for query in exported)


def test_the_environment_is_reduced(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ScriptedXcrun(tmp_path, monkeypatch, TABLES)
    monkeypatch.setenv("MY_TOKEN", "secret")
    seen = tmp_path / "environment"
    writing = f"import os; open({str(seen)!r}, 'w').write(' '.join(os.environ))"
    measure(package, command=child_over_dropin("coremlscope.measure.coreml.timing_child:time_model", writing))
    names = seen.read_text().split()
    assert "MY_TOKEN" not in names
    assert "PATH" in names


def test_all_processes_are_recorded_where_it_cannot_attach(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    xcrun = ScriptedXcrun(tmp_path, monkeypatch, TABLES, cannot_attach=True)
    measured = measure(package)
    assert "recorded-all-processes" in {finding.id for finding in measured.findings}
    assert [call[-1] for call in xcrun.calls if call[1] == "record"][-1] == "--all-processes"


def test_crashes_of_exports_are_tried_again(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ScriptedXcrun(tmp_path, monkeypatch, TABLES, crashes={"toc": 1, "ane-hw-intervals": 2})
    recording = measure(package).recording
    assert recording is not None
    assert [unit.unit for unit in recording.units] == ["neural_engine", "gpu"]


def test_a_table_that_cannot_be_exported_costs_that_table(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ScriptedXcrun(tmp_path, monkeypatch, TABLES, crashes={"ane-hw-intervals": 99})
    measured = measure(package)
    assert measured.recording is not None
    assert [unit.unit for unit in measured.recording.units] == ["gpu"]
    (finding,) = [one for one in measured.findings if one.id == "tables-not-exported"]
    assert "ane-hw-intervals" in finding.text


def _record(folder: Path, timeouts: InstrumentsTimeouts) -> None:
    recorder = InstrumentsRecorder(folder, timeouts)
    recorder.start(os.getpid())
    export_recording(recorder.stop().trace, folder, timeouts)


@pytest.mark.parametrize(
    ("script", "limits", "what"),
    [
        ({"record_fails": True}, {}, "the device is locked"),
        ({"never_starts": True}, {"start_s": 1}, "did not begin to record within 1 s"),
        ({"never_stops": True}, {"stop_s": 1}, "did not write the recording within 1 s"),
        ({"writes_nothing": True}, {}, "wrote no recording"),
        ({"crashes": {"toc": 99}}, {}, "could not export the recording"),
        ({"export_hangs": ["toc"]}, {"export_s": 1}, "could not export the recording"),
        ({"tables": {"toc": "<trace-toc>"}}, {}, "truncated"),
        ({"tables": TABLES | {"ane-hw-intervals": "<html/>"}}, {}, "root element"),
    ],
)
def test_failures_of_instruments(
    script: dict[str, Any],
    limits: dict[str, float],
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ScriptedXcrun(tmp_path, monkeypatch, **({"tables": TABLES} | script))
    timeouts = msgspec.structs.replace(QUICK, tries=2, **limits)
    with pytest.raises((EngineError, UsageError), match=what) as caught:
        _record(tmp_path, timeouts)
    assert caught.value.hint


def test_damaged_exports_are_failures_of_the_engine(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ScriptedXcrun(tmp_path, monkeypatch, TABLES | {"ane-hw-intervals": "<html/>"})
    with pytest.raises(EngineError, match="what xctrace exported cannot be read"):
        measure(package)


def test_the_death_of_the_child_ends_the_recording(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ScriptedXcrun(tmp_path, monkeypatch, TABLES)
    code = (
        "import coremlscope, os, sys; coremlscope.install()\n"
        "import coremlscope.measure.coreml.timing_child as child\n"
        "wait = child._Run._wait\n"
        "child._Run._wait = lambda self: (wait(self), os.abort())\n"
        "child.time_model(*sys.argv[1:])\n"
    )
    with pytest.raises(EngineError, match="SIGABRT"):
        measure(package, command=preloaded_child(code))


@pytest.mark.parametrize(
    ("script", "ask_s", "what"),
    [
        ({"fails": True}, 60, "unable to find utility"),
        ({"templates": ["Blank", "Time Profiler"]}, 60, "no template 'Core ML'"),
        ({"list_hangs": True}, 1, "did not answer within 1 s"),
    ],
)
def test_what_is_missing_is_said_before(
    script: dict[str, Any], ask_s: float, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ScriptedXcrun(tmp_path, monkeypatch, {}, **script)
    with pytest.raises(MissingDependencyError, match=what) as caught:
        require_instruments(InstrumentsTimeouts(ask_s=ask_s))
    assert "Xcode" in caught.value.hint or "Xcode" in caught.value.message


def test_without_xcode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="xcrun is not installed"):
        require_instruments()


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("coremlscope.measure.coreml.plan.this_mac", lambda: find_device("m1", "14.5"))
    monkeypatch.setattr(
        "coremlscope.measure.coreml.plan.ask_core_ml", partial(ask_core_ml, command=PLAN_CHILD)
    )
    monkeypatch.setattr(
        "coremlscope.measure.coreml.timing.CoreMLMeasurer", partial(CoreMLMeasurer, command=TIMING_CHILD)
    )
    monkeypatch.setattr(
        "coremlscope.measure.coreml.tracing.TraceMeasurer",
        partial(TraceMeasurer, command=TIMING_CHILD, timeouts=QUICK),
    )


_ARGUMENTS = ("--iterations", "2", "--compile-iterations", "1", "--load-iterations", "1", "--warmups", "1")


@pytest.mark.usefixtures("mac")
def test_the_option_adds_a_recorded_run_beside_the_other(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ScriptedXcrun(tmp_path, monkeypatch, TABLES)
    report = tmp_path / "profile.json"
    assert main(["profile", str(package), *_ARGUMENTS, "--trace", "--quiet", "-o", str(report)]) == 0
    profile = Profile.load(report)
    plain, recorded = profile.measurements
    assert plain.recording is None
    assert plain.load is not None
    assert recorded.recording is not None
    shown = " ".join(write_terminal(document_of(profile), width=80, color=False).split())
    assert "recorded by Instruments 27.0" in shown
    assert "Busy units measured in a recording" in shown


@pytest.mark.usefixtures("mac")
def test_a_recording_that_fails_leaves_the_measurement(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ScriptedXcrun(tmp_path, monkeypatch, TABLES, record_fails=True)
    report = tmp_path / "profile.json"
    assert main(["profile", str(package), *_ARGUMENTS, "--trace", "--quiet", "-o", str(report)]) == 6
    profile = Profile.load(report)
    assert len(profile.measurements) == 1
    (finding,) = [one for one in profile.findings if one.id == "not-measured"]
    assert finding.text.startswith("a recorded run under all was not measured")
    assert "the device is locked" in finding.text


def test_it_is_refused_elsewhere(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(package), "--trace"]) == UsageError("", "").exit_code
    assert "--trace records Core ML with Instruments, on a Mac only" in capsys.readouterr().err
    assert os.environ.get("COREMLSCOPE_CHANNEL") is None
