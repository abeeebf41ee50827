"""Runs an embedded engine in a process of its own, and keeps what was measured if that ends early."""

from __future__ import annotations

import dataclasses
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coremlscope import errors
from coremlscope.engines.base import EngineOptions
from coremlscope.engines.host import conditions, this_machine
from coremlscope.errors import CoremlscopeError, EngineError, UnsupportedOpError, UsageError
from coremlscope.ir import Model
from coremlscope.measure import engine_child
from coremlscope.measure.child import Child, Limits, Task, python_child
from coremlscope.measure.contract import Progress, Subject, now
from coremlscope.measure.endings import Failure, Failures
from coremlscope.measure.interleaved import time_files
from coremlscope.measure.partial import explain_partial
from coremlscope.results.conditions import condition_findings
from coremlscope.results.encoding import decode
from coremlscope.results.measurement import Measurement, Phase, Runtime, Settings
from coremlscope.writing import write_draft

__all__ = ["CHILD", "ENGINE", "IsolatedMeasurer", "call_isolated", "file_of", "rebuild_error"]

CHILD = python_child("coremlscope.measure.engine_child")
_HINT = "`coremlscope inspect` and `coremlscope estimate` work without running the model"
#: What is known of the failures of a process that runs an embedded engine.
ENGINE = Failures(
    "it",
    (
        Failure(
            r"std::bad_alloc|MemoryError|[Ff]ailed to allocate memory|Cannot allocate memory",
            "the memory was not enough",
            "close other programs, or raise --memory",
        ),
    ),
)
_TASK = Task("the engine", _HINT, ENGINE)
_NO_LIMITS = Limits()


def call_isolated(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    limits: Limits = _NO_LIMITS,
    progress: Progress | None = None,
    command: Sequence[str] = CHILD,
) -> Any:
    """Calls a function that runs an engine in a process that may crash, hang or take too much memory.

    Args:
        function: A function of a module. It takes the argument `progress` if that is given here.
        arguments: Its arguments, which can be pickled.
        limits: When to give up.
        progress: Called with the phase, the repetitions done, and how many there will be.
        command: The child process to run; tests give another one.

    Returns:
        What the function returned.

    Raises:
        CoremlscopeError: The function raised it.
        EngineError: The process failed.
        LimitError: A limit was reached.
        KeyboardInterrupt: Ctrl-C.
    """
    process = _Process(command)
    try:
        heard = _Heard(progress)
        process.ask(
            engine_child.call,
            limits,
            function=function,
            arguments=arguments,
            result=process.folder / "result",
            has_progress=progress is not None,
        )
        error = process.follow(heard, limits) or heard.error
        if error is not None:
            raise error
        if not heard.result:
            raise EngineError("the engine sent no result", _HINT)
        # It is a process of this package with our own rights, and its folder is private.
        return pickle.loads((process.folder / "result").read_bytes())
    finally:
        process.close()


@dataclass(slots=True, kw_only=True)
class IsolatedMeasurer:
    """Measures with an embedded engine, in a process that may crash, hang or take too much memory.

    As a context manager it starts the process for the first measurement at once, which loads the engine while
    the model is read.

    Attributes:
        engine: The engine.
        threads: Threads that work on one operation; None for one per physical core.
        limits: When to give up.
        command: The child process to run; tests give another one.
    """

    engine: str = "onnxruntime"
    threads: int | None = None
    limits: Limits = field(default_factory=Limits)
    command: Sequence[str] = CHILD
    _ready: _Process | None = None

    def __enter__(self) -> IsolatedMeasurer:
        self._ready = self._ready or _Process(self.command)
        return self

    def __exit__(self, *_: object) -> None:
        if self._ready is not None:
            self._ready.close()

    def measure(
        self,
        subject: Subject,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Compiles, loads and runs a function repeatedly; see `Measurer`.

        Returns:
            The measurement. One that was interrupted, failed or reached a limit is partial, if anything was
            timed before.

        Raises:
            LimitError: A limit was reached before anything was timed.
            KeyboardInterrupt: Ctrl-C, before anything was timed.
            UsageError: The model is not in a file.
        """
        before = conditions()
        options = EngineOptions(self.threads)
        heard = _Heard(progress)
        request = self._request(subject, settings, inputs or {})
        with self._process() as process:
            process.ask(engine_child.measure, self.limits, **request)
            error = process.follow(heard, self.limits)
        if heard.measurement is not None:
            measured = decode(heard.measurement, Measurement)
            if len(measured.status) not in (0, len(subject.ops)):
                raise EngineError("the model's file changed while it was measured", "measure it again")
            return measured
        if error is None:
            error = heard.error or EngineError("the engine sent no measurement", _HINT)
        if not heard.has_phases or not isinstance(error, (EngineError, KeyboardInterrupt)):
            raise error
        partial, finding = explain_partial(error, heard.phase)
        machine, after = this_machine(), conditions()
        return Measurement(
            label=f"{heard.runtime.name} {heard.runtime.version} on {machine.processor}",
            runtime=heard.runtime,
            machine=machine,
            settings=settings,
            threads=options.thread_count,
            compile=heard.repeated("compile"),
            load=heard.repeated("load"),
            predict=heard.predicted(),
            before=before,
            after=after,
            partial=partial,
            findings=(finding, *condition_findings(before, after)),
            measured_at=now(),
        )

    def time_interleaved(
        self,
        models: Sequence[Model],
        settings: Sequence[Settings],
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> list[list[tuple[float, ...]]]:
        """Times predictions of each model in interleaved rounds, in one process; see `time_interleaved`.

        Raises:
            CoremlscopeError: A model cannot be run; or see `call_isolated`.
        """
        arguments = {
            "files": [file_of(model) for model in models],
            "settings": settings,
            "inputs": inputs or {},
            "threads": self.threads,
            "engine": self.engine,
        }
        taken: list[list[tuple[float, ...]]] = call_isolated(
            time_files, arguments, limits=self.limits, progress=progress or _ignore, command=self.command
        )
        return taken

    def _request(self, subject: Subject, settings: Settings, inputs: Mapping[str, Any]) -> dict[str, Any]:
        fields = (f.name for f in dataclasses.fields(subject) if f.name != "model")
        return {
            "engine": self.engine,
            "threads": self.threads,
            "model": file_of(subject.model),
            "subject": {name: getattr(subject, name) for name in fields},
            "settings": settings,
            "inputs": inputs,
        }

    @contextmanager
    def _process(self) -> Iterator[_Process]:
        process, self._ready = self._ready or _Process(self.command), None
        try:
            yield process
        finally:
            process.close()


def file_of(model: Model) -> Path:
    """Returns the path of a model.

    Raises:
        UsageError: It is not in a file.
    """
    if model.source is None:
        raise UsageError(
            "a model in memory cannot be run in a process of its own",
            "save it to a file, or leave out isolate and limits",
        )
    return model.source.absolute()


def _ignore(phase: str, done: int, total: int) -> None:
    """Ignores progress, which shows that the process is alive."""


class _Process:
    """The child process, and its private folder."""

    def __init__(self, command: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="coremlscope-", ignore_cleanup_errors=True)
        names = ("TMPDIR",) if os.name == "posix" else ("TEMP", "TMP")
        environment = dict.fromkeys(names, self._folder.name)
        try:
            self._child = Child(command, environment=environment, is_attached=True)
        except BaseException:
            self._folder.cleanup()
            raise

    @property
    def folder(self) -> Path:
        """The private folder."""
        return Path(self._folder.name)

    def ask(self, work: Callable[..., None], limits: Limits, **arguments: Any) -> None:
        """Sends a request; see `engine_child.Request`."""
        file = self.folder / "request"
        request = engine_child.Request(
            work=work, arguments=arguments, time_s=limits.time_s, memory_bytes=limits.memory_bytes
        )
        write_draft(file, pickle.dumps(request))
        self._child.send(str(file))

    def follow(self, heard: _Heard, limits: Limits) -> CoremlscopeError | KeyboardInterrupt | None:
        """Collects the messages; returns what ended the process early, or None."""
        try:
            for message in self._child.messages(limits, _TASK):
                heard.hear(message)
            self._child.check_end(_TASK)
        except (EngineError, KeyboardInterrupt) as error:
            heard.progress = None
            for message in self._child.rest():
                heard.hear(message)
            return error
        return None

    def close(self) -> None:
        """Ends the process, and removes its folder."""
        self._child.close()
        self._folder.cleanup()


class _Heard:
    """What the child said."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.phase = ""
        self.runtime = Runtime("", "")
        self.measurement: object = None
        self.result = ""
        self.error: CoremlscopeError | None = None
        self._seconds: dict[str, list[float]] = {}

    @property
    def has_phases(self) -> bool:
        """True if a repetition was timed."""
        return any(self._seconds.values())

    def hear(self, message: Mapping[str, Any]) -> None:
        """Notes one message."""
        if "phase" in message:
            self.phase = str(message["phase"])
            self._seconds.setdefault(self.phase, []).extend(map(float, message["seconds"]))
            if self.progress is not None:
                self.progress(self.phase, int(message["done"]), int(message["total"]))
        elif "runtime" in message:
            self.runtime = decode(message["runtime"], Runtime)
        elif "error" in message:
            self.error = rebuild_error(message)
        self.measurement = message.get("measurement", self.measurement)
        self.result = str(message.get("result", self.result))

    def repeated(self, phase: str) -> Phase | None:
        """Returns a phase whose first repetition is a warm-up if there are others; None if there is none."""
        seconds = self._seconds.get(phase, ())
        first, rest = seconds[:1], seconds[1:]
        return Phase.of(rest or first, first if rest else ()) if first else None

    def predicted(self) -> Phase | None:
        """Returns the predictions; None if there are none."""
        seconds = self._seconds.get("predict")
        return Phase.of(seconds, self._seconds.get("warm-up", ())) if seconds else None


def rebuild_error(message: Mapping[str, Any]) -> CoremlscopeError:
    """Returns the error that a message of a child process describes."""
    if message["error"] == UnsupportedOpError.__name__:
        return UnsupportedOpError([tuple(op) for op in message["ops"]])
    name = message["error"]
    kind = getattr(errors, name) if name in errors.__all__ else EngineError
    rebuilt: CoremlscopeError = kind(str(message["message"]), str(message["hint"]))
    return rebuilt
