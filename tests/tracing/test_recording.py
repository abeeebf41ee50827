"""Recording: children, threads, full rings, killed programs, damaged files."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import OutputError, UsageError
from coremlscope.base.module_hooks import after_import
from coremlscope.cli.main import main
from coremlscope.dropin.tracing.collect import read_recording
from coremlscope.dropin.tracing.profiled import MOST_RUNS
from coremlscope.dropin.tracing.recorder import Recorder, is_recording
from coremlscope.dropin.tracing.session import RecordedProgram
from coremlscope.dropin.tracing.units import add_unused_units
from coremlscope.reports.program.now import now_document
from coremlscope.reports.program.report import program_document
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.aggregate import aggregate, total_operations
from coremlscope.results.events import KIND_CODES
from coremlscope.results.plan import PlannedOp
from coremlscope.results.trace import Trace, TracedModel
from tests.support.processes import wait_for

_PREDICT = KIND_CODES["predict"]
_MODEL = """
import numpy as np, coremlscope
x = np.ones((1, 4, 16, 16), np.float32)
model = coremlscope.open({path!r})
"""


@pytest.fixture
def script(tmp_path: Path, models: Path) -> Path:
    """A program that predicts with a model."""
    return _script(tmp_path, models, "for _ in range(5): model.predict({'x': x})")


def _script(folder: Path, models: Path, body: str) -> Path:
    path = folder / "program.py"
    path.write_text(
        _MODEL.format(path=str(models / "net.mlpackage")) + textwrap.dedent(body), encoding="utf-8"
    )
    return path


def test_a_call_has_its_thread_line_model_and_inputs(models: Path) -> None:
    with coremlscope.record() as recording, coremlscope.open(models / "net.mlpackage") as model:
        model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})
    trace = recording.trace
    predicted = trace.events.of("predict")
    assert len(predicted) == 1
    site = trace.sites[predicted.site[0]]
    assert Path(site.file) == Path(__file__)
    assert site.function == "test_a_call_has_its_thread_line_model_and_inputs"
    assert trace.threads[predicted.thread[0]] == "MainThread"
    assert trace.models[predicted.model[0]].name == "net"
    assert trace.details[predicted.detail[0]] == "x float32[1,4,16,16]"
    assert predicted.bytes[0] == 4 * 16 * 16 * 4
    inner = trace.events.of("convert input", "run", "convert output")
    assert len(inner) == 3
    assert set(inner.depth) == {1}
    assert set(inner.model) == {predicted.model[0]}
    assert (inner.start_ns >= predicted.start_ns[0]).all()
    assert (inner.end_ns <= predicted.end_ns[0]).all()


def test_calls_in_a_pool_belong_to_the_lines_that_submitted_them(models: Path) -> None:
    values = {"x": np.ones((1, 4, 16, 16), np.float32)}
    with coremlscope.record() as recording, coremlscope.open(models / "net.mlpackage") as model:
        with ThreadPoolExecutor(1) as pool:
            for _ in range(3):
                pool.submit(model.predict, values).result()
                pool.submit(model.predict, values).result()
        model.predict(values)
    trace = recording.trace
    first, second, third, *rest = [trace.sites[site].line for site in trace.events.of("predict").site]
    assert second == first + 1
    assert (third, rest) == (first, [second, first, second, second + 1])


@pytest.fixture(scope="module")
def with_operations(models: Path) -> Trace:
    """A recording with operations, of coremlscope, of coremltools' replacement and of ONNX Runtime."""
    import coremltools as ct
    import onnxruntime

    coremlscope.install()
    values = {"x": np.ones((1, 4, 16, 16), np.float32)}
    with tempfile.TemporaryDirectory() as folder, coremlscope.record(operations=True) as recording:
        with coremlscope.open(models / "net.mlpackage") as model:
            for _ in range(MOST_RUNS + 5):
                model.predict(values)
        loaded = ct.models.MLModel(str(models / "half.mlpackage"))
        for _ in range(3):
            loaded.predict(dict(values))
        coremlscope.export(models / "net.mlpackage", Path(folder, "graph.onnx"))
        session = onnxruntime.InferenceSession(str(Path(folder, "graph.onnx")))
        session.run(None, values)
    session.run(None, values)
    return recording.trace


def test_operations_lie_inside_their_runs_and_have_the_models_names(with_operations: Trace) -> None:
    trace = with_operations
    totals = {(row.model, row.operation): row for row in total_operations(trace)}
    assert {(model, operation[:4]) for model, operation in totals} >= {
        ("net", "conv"),
        ("half", "conv"),
        ("graph", "Conv"),
    }
    fused = next(row for (model, label), row in totals.items() if model == "net" and "+ relu" in label)
    assert fused.operation.startswith("conv ")
    assert "(main/" in fused.operation
    assert fused.count == MOST_RUNS
    assert sum(row.share for key, row in totals.items() if key[0] == "net") == pytest.approx(1)
    assert {row.count for key, row in totals.items() if key[0] == "half" and "conv" in key[1]} == {3}
    assert {row.count for key, row in totals.items() if key[0] == "graph"} == {1}
    operations = trace.events.of("operation")
    runs = trace.events.of("run", "predict")
    at = np.searchsorted(runs.start_ns, operations.start_ns, "right") - 1
    assert (operations.end_ns <= runs.end_ns[at]).all()
    assert (operations.depth > runs.depth[at]).all()
    inside = operations.where((operations.depth == 2) & (operations.duration_ns > 0))
    assert (np.diff(inside.start_ns) >= inside.duration_ns[:-1]).mean() > 0.99
    assert {trace.sites[site].function for site in set(operations.site.tolist())} == {"with_operations"}


def test_operations_are_in_every_report(
    with_operations: Trace,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_operations.save(tmp_path / "run.json")
    reports = [tmp_path / f"run{suffix}" for suffix in (".trace.json", ".md", ".html")]
    for width in (60, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        assert main(["trace", str(tmp_path / "run.json"), *(f"-o{path}" for path in reports)]) == 0
        shown = capsys.readouterr().out
        assert "Operations" in shown
        assert max(map(len, shown.splitlines())) <= width
    slices = [e for e in json.loads(reports[0].read_text())["traceEvents"] if e["ph"] == "X"]
    assert any(e["name"].startswith("conv ") and e["cat"] == "compute" for e in slices)
    assert "### Operations" in reports[1].read_text()
    assert "operation" in {row.kind for row in aggregate(Trace.load(tmp_path / "run.json"))}


def test_operations_of_a_program_and_its_children(tmp_path: Path, models: Path) -> None:
    body = """
    import subprocess, sys
    if len(sys.argv) == 1:
        subprocess.run([sys.executable, __file__, "child"], check=True)
    model.predict({'x': x})
    """
    program = RecordedProgram([str(_script(tmp_path, models, body))], operations=True)
    assert program.wait() == 0
    operations = program.trace.events.of("operation")
    assert sorted(set(operations.process.tolist())) == [0, 1]


def test_a_session_that_the_program_profiles_is_left_alone(models: Path, tmp_path: Path) -> None:
    import onnxruntime

    coremlscope.export(models / "net.mlpackage", tmp_path / "net.onnx")
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "own")
    values = {"x": np.ones((1, 4, 16, 16), np.float32)}
    with coremlscope.record(operations=True) as recording:
        session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), options)
        session.run(None, values)
    assert Path(session.end_profiling()).parent == tmp_path
    assert not len(recording.trace.events.of("operation"))


def test_functions_are_restored_and_a_second_recording_is_refused() -> None:
    import onnxruntime

    before = onnxruntime.InferenceSession.__init__, onnxruntime.InferenceSession.run
    with coremlscope.record():
        assert is_recording()
        assert onnxruntime.InferenceSession.__init__ is not before[0]
        with pytest.raises(UsageError, match="recorded already"):
            coremlscope.record().start()
    assert (onnxruntime.InferenceSession.__init__, onnxruntime.InferenceSession.run) == before
    assert not is_recording()
    assert "COREMLSCOPE_TRACE" not in os.environ


def test_a_session_of_onnx_runtime_is_a_model_of_its_own(models: Path, tmp_path: Path) -> None:
    import onnxruntime

    coremlscope.export(models / "net.mlpackage", tmp_path / "net.onnx")
    with coremlscope.record() as recording:
        session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
        for _ in range(3):
            session.run(None, {"x": np.ones((1, 4, 16, 16), np.float32)})
    trace = recording.trace
    assert [(m.name, m.runtime) for m in trace.models] == [("net", "ONNX Runtime")]
    assert {(row.model, row.kind, row.count) for row in aggregate(trace)} == {
        ("net", "predict", 3),
        ("net", "load", 1),
    }


def test_a_failed_prediction_is_an_event_and_its_error_reaches_the_program(models: Path) -> None:
    model = coremlscope.open(models / "net.mlpackage")
    with coremlscope.record() as recording, pytest.raises(coremlscope.CoremlscopeError):
        model.predict({"y": 1})
    model.close()
    assert [(row.kind, row.failed) for row in aggregate(recording.trace) if row.kind == "predict"] == [
        ("predict", 1)
    ]


def test_a_full_ring_keeps_the_newest_events_and_says_so(models: Path) -> None:
    with coremlscope.record(capacity=50) as recording, coremlscope.open(models / "net.mlpackage") as model:
        for _ in range(40):
            model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})
    trace = recording.trace
    assert len(trace.events) == 50
    assert trace.lost > 100
    assert trace.events.end_ns.max() == trace.events.of("predict").end_ns.max()
    assert "older ones were replaced" in write_terminal(program_document(trace))


def test_a_span_of_time_recomputes_the_totals(models: Path) -> None:
    with coremlscope.record() as recording, coremlscope.open(models / "net.mlpackage") as model:
        for _ in range(6):
            model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})
    trace = recording.trace
    third = trace.events.of("predict").where(np.array([2]))
    start_s, end_s = third.start_ns[0] / 1e9, third.end_ns[0] / 1e9
    rows = {row.kind: row for row in aggregate(trace, (start_s, end_s))}
    assert rows["predict"].count == 1
    assert rows["predict"].total_s == pytest.approx(end_s - start_s)
    assert "load" not in rows


def test_children_are_merged_into_one_trace(tmp_path: Path, models: Path) -> None:
    body = """
    import os, subprocess, sys
    if len(sys.argv) == 1:
        subprocess.run([sys.executable, __file__, "child"], check=True)
        if os.fork() == 0:
            model.predict({'x': x})
            os._exit(0)
        os.wait()
    model.predict({'x': x})
    """
    program = RecordedProgram([str(_script(tmp_path, models, body))])
    assert program.wait() == 0
    trace = program.trace
    assert len(trace.processes) == 3
    assert sorted(np.bincount(trace.events.of("predict").process).tolist()) == [1, 1, 1]
    pids = {process.pid for process in trace.processes}
    assert [process.parent in pids for process in trace.processes] == [False, True, True]


def test_a_killed_program_keeps_what_it_recorded(tmp_path: Path, models: Path) -> None:
    marker = tmp_path / "calls"
    body = f"""
    calls = open({str(marker)!r}, "ab", buffering=0)
    for _ in range(100_000):
        model.predict({{'x': x}})
        calls.write(b".")
    """
    program = RecordedProgram([str(_script(tmp_path, models, body))])
    until = time.monotonic() + 60
    while not (marker.exists() and marker.stat().st_size > 2) and time.monotonic() < until:
        time.sleep(0.02)
    program._process.send_signal(signal.SIGKILL)
    assert program.wait() == 128 + signal.SIGKILL
    made = marker.stat().st_size
    trace = program.trace
    assert len(trace.events.of("predict")) >= made > 2
    assert not trace.processes[0].ended


@pytest.mark.parametrize("options", [[], ["--live"]])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signals")
def test_signals_are_passed_on_and_the_recording_is_kept(
    options: list[str], number: signal.Signals, tmp_path: Path, models: Path
) -> None:
    marker, output = tmp_path / "predicted", tmp_path / "kept.json"
    body = f"""
    import time
    model.predict({{'x': x}})
    open({str(marker)!r}, "w").close()
    time.sleep(600)
    """
    arguments = ["trace", *options, "-o", str(output), str(_script(tmp_path, models, body))]
    command = [sys.executable, "-m", "coremlscope", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, start_new_session=True, stdout=pipe, stderr=pipe, text=True) as process:
        assert wait_for(marker.exists)
        process.send_signal(number)
        process.send_signal(number)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "net" in printed
    assert len(Trace.load(output).events.of("predict")) == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signals")
def test_a_program_that_ignores_sigterm_is_killed_before_the_recording_is_lost(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coremlscope.dropin.tracing.session._GRACE_S", 0.2)
    marker = tmp_path / "predicted"
    body = f"""
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    model.predict({{'x': x}})
    open({str(marker)!r}, "w").close()
    time.sleep(600)
    """
    with RecordedProgram([str(_script(tmp_path, models, body))]) as program:
        assert wait_for(marker.exists)
        signal.raise_signal(signal.SIGTERM)
        assert program.wait(60) == 128 + signal.SIGKILL
        assert len(program.trace.events.of("predict")) == 1
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_the_verb_reports_mistakes_and_returns_the_programs_code(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    script.write_text(script.read_text() + "\nraise SystemExit(7)\n", encoding="utf-8")
    reports = [
        tmp_path / f"run{suffix}" for suffix in (".json", ".trace.json", ".md", ".csv", ".html", ".txt")
    ]
    assert main(["trace", *(f"-o{path}" for path in reports), str(script)]) == 7
    shown = capsys.readouterr().out
    assert "Lanes" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert all(path.stat().st_size for path in reports)
    slices = [e for e in json.loads(reports[1].read_text())["traceEvents"] if e["ph"] == "X"]
    trace = Trace.load(reports[0])
    assert len(slices) == len(trace.events) > 5
    assert main(["trace", str(reports[0]), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["command"][0] == script.name


def test_a_running_program_is_shown_with_its_rates_lanes_mistakes_and_output(models: Path) -> None:
    with coremlscope.record() as recording, coremlscope.open(models / "net.mlpackage") as model:
        for _ in range(6):
            model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})
    trace = recording.trace
    now_s = float(trace.events.end_ns.max()) / 1e9
    shown = write_terminal(
        now_document(trace, now_s=now_s, window_s=2.0, output=["said by the program"]), width=80
    )
    length_s = min(now_s, 2.0)
    assert f"{6 / length_s:.1f}" in shown
    assert "Activity" in shown
    assert "said by the program" in shown
    assert max(map(len, shown.splitlines())) <= 80
    later = write_terminal(now_document(trace, now_s=now_s + 60, window_s=2.0), width=80)
    assert "no events" in later


def test_live_without_a_terminal_shows_the_report_at_the_end(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "--live", str(script)]) == 0
    assert "Totals" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere/program.py"], "does not exist"),
        (["/nowhere/program"], "cannot be started"),
        (["run.json", "--unknown"], "no option"),
    ],
)
def test_what_cannot_be_started_is_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_program_that_records_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "/bin/true"]) == 2
    assert "recorded nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data | {"schema": "other"},
        lambda data: data | {"events": {}},
        lambda data: data | {"events": data["events"] | {"kind": "|u1:AAAA"}},
        lambda data: data | {"events": data["events"] | {"site": data["events"]["detail"][:-9]}},
        lambda data: data | {"sites": []},
        lambda data: data | {"models": 3},
    ],
)
def test_a_damaged_recording_is_one_sentence(change: object, models: Path, tmp_path: Path) -> None:
    with coremlscope.record() as recording, coremlscope.open(models / "net.mlpackage") as model:
        model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})
    data = json.loads(json.dumps(recording.trace.to_json()))
    path = tmp_path / "run.json"
    path.write_text(json.dumps(change(data)), encoding="utf-8")  # type: ignore[operator]
    with pytest.raises(UsageError, match=r"recording"):
        Trace.load(path)


def test_two_waiting_functions_see_an_import_and_can_be_cancelled(tmp_path: Path) -> None:
    (tmp_path / "just_imported.py").write_text("value = 1\n", encoding="utf-8")
    seen: list[str] = []
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from coremlscope.base.module_hooks import after_import
first = after_import(["just_imported"], lambda module: print("first", module.value))
second = after_import(["just_imported"], lambda module: print("second", module.value))
first()
import just_imported
assert just_imported.__spec__.loader is just_imported.__loader__
second()
assert not any("coremlscope" in type(finder).__module__ for finder in sys.meta_path)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "second 1\n"
    assert not seen
    cancel = after_import(["never"], lambda _: None)
    cancel()
    cancel()


def test_a_recorder_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(coremlscope.CoremlscopeError, match="cannot be written"):
        Recorder(tmp_path / "absent").start()
    assert not is_recording()


def test_a_running_process_needs_a_python_that_can_attach(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    monkeypatch.delattr(sys, "remote_exec", raising=False)
    assert main(["trace", "--pid", "1"]) == 2
    assert "cannot attach" in capsys.readouterr().err

    # A stand-in for Python 3.14, which runs a script inside the other process: here, in this one.
    scripts: list[str] = []

    def attach(pid: int, script: str) -> None:
        scripts.append(f"{pid} {Path(script).name}")
        exec(compile(Path(script).read_text(), script, "exec"), {"__name__": "remote"})
        if script.endswith("begin.py"):
            with coremlscope.open(models / "net.mlpackage") as model:
                model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})

    monkeypatch.setattr(sys, "remote_exec", attach, raising=False)
    assert main(["trace", "--pid", "77", "--seconds", "1"]) == 0
    assert scripts == ["77 begin.py", "77 finish.py"]
    assert "predict" in capsys.readouterr().out
    assert not is_recording()

    def refuse(pid: int, script: str) -> None:
        raise ProcessLookupError(3, "no such process")

    monkeypatch.setattr(sys, "remote_exec", refuse, raising=False)
    assert main(["trace", "--pid", "77", "--seconds", "1"]) == 2
    assert "no such process" in capsys.readouterr().err


def test_intervals_of_instruments_are_shown_in_the_same_lanes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = tmp_path / "recording.xml"
    row = (
        '<row><start-time id="{0}1">{1}</start-time><duration id="{0}2">{2}</duration>'
        '<ane-event-name id="{0}3">Apple Neural Engine</ane-event-name>'
        '<formatted-label id="{0}4">Neural Engine Prediction</formatted-label></row>'
    )
    columns = "".join(
        f"<col><mnemonic>{name}</mnemonic><engineering-type>{type_}</engineering-type></col>"
        for name, type_ in (
            ("start", "start-time"),
            ("duration", "duration"),
            ("channel-name", "ane-event-name"),
            ("event-label", "formatted-label"),
        )
    )
    rows = row.format(1, 5_000_000, 2_000_000) + row.format(2, 9_000_000, 3_000_000)
    export.write_text(
        '<?xml version="1.0"?><trace-query-result><node xpath="//x"><schema name="ane-hw-intervals">'
        f"{columns}</schema>{rows}</node></trace-query-result>",
        encoding="utf-8",
    )
    assert main(["trace", str(export), "--json", str(tmp_path / "lanes.json")]) == 0
    trace = Trace.load(tmp_path / "lanes.json")
    (total,) = aggregate(trace)
    assert (total.kind, total.lane, total.count, total.total_s) == ("Neural Engine busy", "compute", 2, 0.005)
    assert trace.details == ("Neural Engine Prediction",)
    assert "Neural Engine busy" in capsys.readouterr().out
    export.write_text(export.read_text()[:-60], encoding="utf-8")
    assert main(["trace", str(export)]) == 2


def test_units_that_the_plan_does_not_use_are_a_mistake(models: Path) -> None:
    import coremltools as ct

    coremlscope.install()
    with coremlscope.record() as recording:
        model = ct.models.MLModel(str(models / "net.mlpackage"), compute_units=ct.ComputeUnit.CPU_AND_NE)
        model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})
    asked: list[str] = []

    def plan(model: TracedModel, units: str) -> Sequence[PlannedOp]:
        asked.append(f"{model.name} {units}")
        profile = coremlscope.plan(model.path, "m1", compute_units=units)  # type: ignore[arg-type]
        return profile.plans[0].ops

    found = add_unused_units(recording.trace, "m1", plan).mistakes[-1]
    assert asked == ["net cpu_and_ne"]
    assert (found.id, found.severity) == ("units-unused", "warning")
    assert "does not use the Neural Engine" in found.title
    assert "on the CPU" in found.evidence


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 2 MiB, which temporary files go to."""
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    gc.collect()
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_disk_that_fills_up_keeps_the_newest_events(small_disk: Path) -> None:
    recorder = Recorder(small_disk, children=False)
    recorder.start()
    ring = recorder.ring
    assert ring is not None
    (small_disk / "other").write_bytes(bytes(600_000))
    recorder.threads.state.begin(ring, ring.number("site 3 f /program.py"))
    for start in range(60_000):
        ring.write([(start, 1, 0, 0, 0, 0, _PREDICT, 0)], recorder.threads.state.number)
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(1000)):
            pass
    assert not ring.log({"string": 9, "text": "site " + "x" * 10_000})
    filler.unlink()
    assert ring.number("site 4 g /program.py") == 3
    ring.write([(60_000, 1, 0, 0, 0, 0, _PREDICT, 0)], 1, 0, 3)
    recorder.stop()
    trace = read_recording(small_disk)
    assert len(trace.events) == 1 << 14
    assert trace.lost == 60_001 - (1 << 14)
    assert np.diff(trace.events.start_ns).tolist() == [1] * (len(trace.events) - 1)
    assert trace.sites[trace.events.site[-1]].line == 4
    assert trace.processes[0].ended


def test_a_full_disk_is_refused_before_recording(small_disk: Path) -> None:
    (small_disk / "other").write_bytes(bytes(1_500_000))
    with pytest.raises(OutputError, match="No space left"):
        coremlscope.record().start()
    assert not is_recording()


@pytest.mark.parametrize("function", ["posix_fallocate", "write"])
def test_space_is_reserved_with_and_without_the_systems_function(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if function == "write":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    recorder = Recorder(tmp_path, 20_000, children=False)
    recorder.start()
    assert recorder.ring is not None
    file = next(tmp_path.glob("*.ring"))
    assert file.stat().st_size > 20_000 * 56 > file.stat().st_blocks * 512 > (1 << 14) * 56
    for start in range(20_001):
        recorder.ring.write([(start, 1, 0, 0, 0, 0, _PREDICT, 0)])
    assert file.stat().st_blocks * 512 >= 20_000 * 56
    recorder.stop()
    assert len(read_recording(tmp_path).events) == 20_000

    def refuse(*_: object) -> int:
        raise OSError(27, "File too large")

    monkeypatch.setattr(os, function, refuse)
    with pytest.raises(OutputError, match="File too large"):
        Recorder(tmp_path).start()


def test_strings_that_cannot_be_written_never_fail_the_program(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with coremlscope.record() as recording, coremlscope.open(models / "net.mlpackage") as model:
        with monkeypatch.context() as full:
            full.setattr(os, "write", refuse)
            model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})
        model.predict({"x": np.ones((1, 4, 16, 16), np.float32)})
    assert len(recording.trace.events.of("predict")) == 2


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are not listed")
def test_recordings_leave_no_file_open() -> None:
    def record_once() -> int:
        with coremlscope.record():
            pass
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    before = record_once()
    assert max(record_once() for _ in range(4)) <= before


def test_a_forked_child_without_a_ring_does_not_write_into_its_parents(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, children=False)
    recorder.start()
    try:
        recorder.folder = tmp_path / "absent"
        recorder.continue_in_child()
        assert recorder.ring is None
    finally:
        recorder.stop()
