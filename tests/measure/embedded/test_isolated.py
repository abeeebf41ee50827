"""Measuring in a process of its own: the same measurement, and what is kept when the process ends early."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import msgspec.structs
import numpy as np
import pytest

from coremlscope import api
from coremlscope.base.errors import (
    EngineError,
    InputError,
    LimitError,
    MissingWeightsError,
    UnsupportedOpError,
    UsageError,
)
from coremlscope.base.processes.child import ChildLimits
from coremlscope.describe.comparison.profiles import why_incomparable
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.measure.contract import MeasuredModel, resolve_settings
from coremlscope.measure.embedded import process as engine_process
from coremlscope.measure.embedded.isolated import IsolatedMeasurer
from coremlscope.measure.embedded.measurer import EngineMeasurer
from coremlscope.measure.embedded.process import (
    CHILD,
    EngineProcess,
    call_isolated,
    started_early,
    take_process,
)
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.results.profile import Profile
from coremlscope.runtime.engines import engine
from tests.support.ir_models import perceptron
from tests.support.later import minutes_later
from tests.support.processes import skip_unless_limited

pytestmark = pytest.mark.usefixtures("_real_children")
SHORT = Settings(iterations=3, compile_iterations=1, load_iterations=2, warmups=2)
#: A process that times two compilations, the second of which it does not send, and then does something else.
SEND = """
import os, sys, time
from coremlscope.base.processes.channel import send
send(runtime={"id": "e", "name": "Engine", "version": "1"})
send(phase="compile", done=2, total=11, seconds=[0.5, 0.25])
send(phase="load", done=1, total=11, seconds=[0.125])
send(phase="warm-up", done=1, total=20, seconds=[4.0])
send(phase="predict", done=2, total=50, seconds=[1.0, 3.0])
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "sample.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.5, classes=4), path)
    return path


def subject_of(path: Path, settings: Settings = SHORT) -> tuple[MeasuredModel, Settings]:
    model = api.read(path)
    resolved = resolve_settings(model, settings)
    return MeasuredModel.of(model, resolved), resolved


def scripted(code: str, limits: ChildLimits | None = None) -> IsolatedMeasurer:
    """A measurer whose process runs other code."""
    return IsolatedMeasurer(command=(sys.executable, "-c", code), limits=limits or ChildLimits())


def test_the_measurement_is_that_of_the_engine(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, here = tmp_path / "temporary", tmp_path / "here"
    temporary.mkdir()
    here.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    # A folder with a model from a stranger may contain modules with the names of others.
    for name in ("onnxruntime", "msgspec", "runpy"):
        (here / f"{name}.py").write_text(f"open({str(here / 'was-run')!r}, 'w')", encoding="utf-8")
    monkeypatch.chdir(here)
    subject, settings = subject_of(sample)
    states: list[tuple[str, int, int]] = []
    apart = IsolatedMeasurer().measure(subject, settings, progress=lambda *state: states.append(state))
    assert list(temporary.glob("*/[!.]*")) == []
    within = EngineMeasurer(engine=engine()).measure(subject, settings)
    assert apart.partial is None
    assert (apart.label, apart.runtime, apart.settings) == (within.label, within.runtime, within.settings)
    assert (apart.status, apart.group, apart.threads) == (within.status, within.group, within.threads)
    kinds = [[[kind for _, kind in g.engine_nodes] for g in m.groups] for m in (apart, within)]
    assert kinds[0] == kinds[1]
    counts = {name: (len(p.samples_s), len(p.warmups_s)) for name, p in apart.phases.items()}
    assert counts == {"compile": (1, 1), "load": (2, 1), "predict": (3, 2)}
    assert states[-1] == ("operations", 1, 1)
    assert {state[0] for state in states} == {"compile", "load", "warm-up", "predict", "operations"}
    assert not (here / "was-run").exists()


@pytest.mark.parametrize(
    ("end", "limits", "cause", "text"),
    [
        ("os.abort()", ChildLimits(), "failed", "the engine failed: it aborted the process (SIGABRT)"),
        ("os.kill(os.getpid(), 9)", ChildLimits(), "failed", "as it does when memory runs out"),
        (
            "sys.exit('std::bad_alloc')",
            ChildLimits(),
            "failed",
            "the engine failed: the memory was not enough",
        ),
        ("time.sleep(60)", ChildLimits(silence_s=60.0), "limit", "the engine gave no sign of life for 60 s"),
        ("time.sleep(60)", ChildLimits(time_s=600.0), "limit", "the engine took longer than 600 s"),
        (
            "x = bytearray(10**8); time.sleep(60)",
            ChildLimits(memory_bytes=9 * 10**7),
            "limit",
            "the engine took more than 0.09 GB of memory",
        ),
        (
            "send(error='EngineError', message='ONNX Runtime cannot run the model', hint='')",
            ChildLimits(),
            "failed",
            "ONNX Runtime cannot run the model",
        ),
        ("", ChildLimits(), "failed", "the engine sent no measurement"),
    ],
)
def test_what_was_measured_before_is_kept(
    sample: Path, end: str, limits: ChildLimits, cause: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_unless_limited(limits)
    later = minutes_later(monkeypatch) if limits.memory_bytes is None and cause == "limit" else None
    measured = scripted(SEND + end, limits).measure(*subject_of(sample), progress=later)
    assert measured.partial is not None
    assert (measured.partial.cause, measured.partial.phase) == (cause, "predict")
    assert text in measured.partial.text
    (finding,) = measured.findings
    code = LimitError.exit_code if cause == "limit" else EngineError.exit_code
    assert (finding.id, finding.severity, finding.exit_code) == ("partial", "error", code)
    assert_is_what_was_told(measured)


def assert_is_what_was_told(measured: Measurement) -> None:
    assert {name: phase.samples_s for name, phase in measured.phases.items()} == {
        "compile": (0.25,),
        "load": (0.125,),
        "predict": (1.0, 3.0),
    }
    assert measured.predict is not None
    assert measured.predict.warmups_s == (4.0,)
    assert measured.label.startswith("Engine 1 on ")


def test_ctrl_c_keeps_what_was_measured(sample: Path) -> None:
    """The process is asked to end, and sends what it has not sent yet."""
    code = SEND.replace("[1.0, 3.0]", "[1.0]")
    code += "sys.stdin.readline(); sys.stdin.read(); send(phase='predict', done=2, total=50, seconds=[3.0])"
    began = threading.Event()

    def interrupt() -> None:
        assert began.wait(30)
        time.sleep(0.2)
        signal.raise_signal(signal.SIGINT) if os.name == "nt" else os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    subject, settings = subject_of(sample)
    measured = scripted(code).measure(
        subject, settings, progress=lambda phase, *_: began.set() if phase == "predict" else None
    )
    thread.join()
    assert measured.partial is not None
    assert measured.partial.text == "interrupted (phase: predict)"
    (finding,) = measured.findings
    assert (finding.severity, finding.exit_code) == ("warning", 130)
    assert_is_what_was_told(measured)


@pytest.mark.parametrize(
    ("code", "limits", "error", "message"),
    [
        ("import os; os.abort()", ChildLimits(), EngineError, "aborted the process"),
        ("import time; time.sleep(60)", ChildLimits(time_s=0.3), LimitError, "longer than 0.3 s"),
    ],
)
def test_nothing_measured_is_an_error(
    sample: Path, code: str, limits: ChildLimits, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        scripted(code, limits).measure(*subject_of(sample))


def test_a_process_that_is_started_early_measures_or_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[EngineProcess] = []
    monkeypatch.setattr(EngineProcess, "close", lambda process: ended.append(process))
    monkeypatch.setattr(engine_process, "Child", lambda *_, **__: None)
    with started_early(True):
        taken = take_process(CHILD)
        assert take_process(CHILD) is not taken
    assert ended == []
    with started_early(True):
        assert take_process(("another", "command")) not in ended
    assert len(ended) == 1


#: A process that says when its first line arrives, and ends after the second one.
LISTEN = """
import sys
from coremlscope.base.processes.channel import jobs, send
from coremlscope.measure.embedded.child import ProcessRequest
settings = next(jobs()).arguments["settings"]
send(phase="load", done=1, total=1, seconds=[settings.iterations])
sys.stdin.buffer.read(1)
send(phase="predict", done=1, total=1, seconds=[1.0])
"""


def test_a_measurement_begins_before_the_model_is_described(sample: Path) -> None:
    subject, settings = subject_of(sample)
    other = msgspec.structs.replace(settings, iterations=7)
    for asked in (settings, other):
        inputs: dict[str, object] = {}
        with scripted(LISTEN) as measurer:
            measurer.prepare(subject.model, settings, inputs)
            process = measurer._ready
            assert process is not None
            measured = measurer.measure(subject, asked, inputs=inputs)
        # What was begun for other settings is not used.
        assert measured.phases["load"].samples_s == (asked.iterations,)
        assert measured.phases["predict"].samples_s == (1.0,)
        assert not process.folder.exists()


def test_only_the_first_compilation_runs_before_the_model_is_described(sample: Path) -> None:
    subject, settings = subject_of(sample)
    inputs: dict[str, object] = {}
    with IsolatedMeasurer() as measurer:
        measurer.prepare(subject.model, settings, inputs)
        process = measurer._ready
        assert process is not None
        give_up = time.monotonic() + 60
        while not (written := list(process.folder.rglob("compiled.json"))) and time.monotonic() < give_up:
            time.sleep(0.01)
        before = written[0].stat().st_mtime_ns
        time.sleep(0.3)
        assert written[0].stat().st_mtime_ns == before
        measured = measurer.measure(subject, settings, inputs=inputs)
    assert measured.partial is None
    assert len(measured.status) == len(subject.ops)


def test_errors_arrive_as_they_are(sample: Path) -> None:
    said = SEND + "send(error='InputError', message='input x is too long', hint='shorten it')"
    with pytest.raises(InputError, match="too long") as caught:
        scripted(said).measure(*subject_of(sample))
    assert caught.value.hint == "shorten it"
    said = SEND + "send(error='UnsupportedOpError', ops=[['foo', 'main/1', 'it is new']])"
    with pytest.raises(UnsupportedOpError, match=r"foo \(at main/1: it is new\)") as unsupported:
        scripted(said).measure(*subject_of(sample))
    assert unsupported.value.ops == (("foo", "main/1", "it is new"),)
    with pytest.raises(MissingWeightsError):
        scripted(
            "from coremlscope.base.processes.channel import send\n"
            "send(error='MissingWeightsError', message='absent', hint='')"
        ).measure(*subject_of(sample))


def test_models_in_memory_are_refused() -> None:
    settings = resolve_settings(perceptron(), SHORT)
    with pytest.raises(UsageError, match="in memory"):
        IsolatedMeasurer(command=(sys.executable, "-c", "")).measure(
            MeasuredModel.of(perceptron(), settings), settings
        )


def test_a_partial_profile_says_so_in_every_format(sample: Path, tmp_path: Path) -> None:
    profile = api.profile(sample, engine=scripted(SEND + "os.abort()"))
    for suffix in (".md", ".txt", ".csv", ".html", ".trace.json", ".json"):
        profile.write(tmp_path / f"report{suffix}")
        assert "partial" in (tmp_path / f"report{suffix}").read_text(encoding="utf-8"), suffix
    assert "partial" in profile._repr_html_()
    loaded = Profile.load(tmp_path / "report.json")
    assert loaded.measurements == profile.measurements
    assert loaded.model.path == sample.name


def _called(code: str, limits: ChildLimits | None = None) -> object:
    """Calls a function in a process that runs other code."""
    command = (
        sys.executable,
        "-c",
        "import os, sys, time\nfrom coremlscope.base.processes.channel import send\n" + code,
    )
    return call_isolated(os.getpid, {}, limits=limits or ChildLimits(), command=command)


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("os.abort()", EngineError, "the engine failed: it aborted the process (SIGABRT)"),
        ("raise ValueError('x')", EngineError, "the engine failed: ValueError: x"),
        ("send(error='InputError', message='a value is missing', hint='')", InputError, "a value is missing"),
        ("pass", EngineError, "the engine sent no result"),
        ("time.sleep(60)", LimitError, "the engine took longer than 0.2 s"),
    ],
)
def test_a_call_that_fails_is_one_sentence(code: str, kind: type[EngineError], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        _called(code, ChildLimits(time_s=0.2) if "sleep" in code else None)


def test_a_prediction_in_a_process_of_its_own_is_the_same(sample: Path) -> None:
    image = np.zeros((32, 32, 3), np.uint8)
    here, apart = (api.predict(sample, {"image": image}, isolate=isolate) for isolate in (False, True))
    assert here.keys() == apart.keys()
    assert here["classLabel"] == apart["classLabel"]
    with pytest.raises(InputError, match="the input 'image'"):
        api.predict(sample, {}, timeout_s=300)
    with pytest.raises(UsageError, match="in memory"):
        api.predict(sample_model(size=32, width=0.5, classes=4), {}, isolate=True)


def test_a_partial_measurement_is_not_compared(sample: Path) -> None:
    partial = scripted(SEND + "os.abort()").measure(*subject_of(sample))
    assert why_incomparable(partial, partial) == "a measurement is partial"
