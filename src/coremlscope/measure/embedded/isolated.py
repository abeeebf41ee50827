"""Runs an embedded engine in a process of its own, and keeps partial results if it ends early."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from coremlscope.base.errors import CoremlscopeError, EngineError
from coremlscope.base.processes.child import ChildLimits
from coremlscope.measure.contract import MeasuredModel, Progress, note_seconds, now
from coremlscope.measure.embedded import child as engine_child
from coremlscope.measure.embedded.process import (
    CHILD,
    HINT,
    EngineProcess,
    ProcessReply,
    call_isolated,
    file_of,
    take_process,
)
from coremlscope.measure.partial import explain_partial
from coremlscope.model.ir import Model
from coremlscope.results.encoding import decode
from coremlscope.results.measurement import Measurement, Phase, Runtime, Settings, condition_findings
from coremlscope.runtime.engines.base import EngineOptions
from coremlscope.runtime.engines.host import conditions, this_machine


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
    limits: ChildLimits = field(default_factory=ChildLimits)
    command: Sequence[str] = CHILD
    _ready: EngineProcess | None = None
    #: What the process was asked for.
    _asked: tuple[Model, Settings, Mapping[str, Any]] | None = None

    def __enter__(self) -> IsolatedMeasurer:
        with suppress(EngineError):  # `measure` fails then, where the rest of the profile is kept.
            self._ready = self._ready or take_process(self.command)
        return self

    def __exit__(self, *_: object) -> None:
        if self._ready is not None:
            self._ready.close()

    def prepare(self, model: Model, settings: Settings, inputs: Mapping[str, Any]) -> None:
        """Begins a measurement; see `contract.prepare`."""
        if self._ready is not None and self._asked is None:
            with suppress(CoremlscopeError):  # `measure` fails then.
                self._ask(self._ready, model, settings, inputs)
                self._asked = (model, settings, inputs)

    def measure(
        self,
        subject: MeasuredModel,
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
        reply = _MeasurementReply(progress)
        fields = {name: getattr(subject, name) for name in subject.__struct_fields__ if name != "model"}
        with self._process(subject.model, settings, {} if inputs is None else inputs) as process:
            process.describe(fields)
            error = process.follow(reply, self.limits)
        if reply.measurement is not None:
            measured = decode(reply.measurement, Measurement)
            if len(measured.status) not in (0, len(subject.ops)):
                raise EngineError("the model's file changed while it was measured", "measure it again")
            return measured
        if error is None:
            error = reply.error or EngineError("the engine sent no measurement", HINT)
        if not reply.has_phases or not isinstance(error, (EngineError, KeyboardInterrupt)):
            raise error
        partial, finding = explain_partial(error, reply.phase, reply.seconds)
        machine, after = this_machine(), conditions()
        return Measurement(
            label=f"{reply.runtime.name} {reply.runtime.version} on {machine.processor}",
            runtime=reply.runtime,
            machine=machine,
            settings=settings,
            threads=options.thread_count,
            compile=reply.repeated("compile"),
            load=reply.repeated("load"),
            predict=reply.predicted(),
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
            engine_child.time_files,
            arguments,
            limits=self.limits,
            progress=progress or _ignore,
            command=self.command,
        )
        return taken

    def _ask(
        self, process: EngineProcess, model: Model, settings: Settings, inputs: Mapping[str, Any]
    ) -> None:
        process.ask(
            engine_child.measure,
            self.limits,
            engine=self.engine,
            threads=self.threads,
            model=file_of(model),
            subject=process.described,
            settings=settings,
            inputs=inputs,
        )

    @contextmanager
    def _process(
        self, model: Model, settings: Settings, inputs: Mapping[str, Any]
    ) -> Iterator[EngineProcess]:
        """Gives the process that measures, which was asked to."""
        process, self._ready = self._ready or take_process(self.command), None
        asked, self._asked = self._asked, None
        try:
            if asked is None:
                self._ask(process, model, settings, inputs)
            elif not (asked[0] is model and asked[1] == settings and asked[2] is inputs):
                process.close()
                process = take_process(self.command)
                self._ask(process, model, settings, inputs)
            yield process
        finally:
            process.close()


def _ignore(phase: str, done: int, total: int) -> None:
    """Ignores progress, which shows that the process is alive."""


class _MeasurementReply(ProcessReply):
    """The messages of the process of a measurement."""

    def __init__(self, progress: Progress | None) -> None:
        super().__init__(progress)
        self.phase = ""
        self.runtime = Runtime("", "")
        self.measurement: object = None
        self.seconds: dict[str, list[float]] = {}

    @property
    def has_phases(self) -> bool:
        """True if a repetition was timed."""
        return any(self.seconds.values())

    def receive(self, message: Mapping[str, Any]) -> None:
        """Reads one message."""
        if "phase" in message:
            self.phase = str(message["phase"])
            seconds = list(map(float, message["seconds"]))
            self.seconds.setdefault(self.phase, []).extend(seconds)
            if self.phase != "operations":  # which are the sums of many runs
                note_seconds(self.progress, self.phase, seconds)
        elif "runtime" in message:
            self.runtime = decode(message["runtime"], Runtime)
        self.measurement = message.get("measurement", self.measurement)
        super().receive(message)

    def repeated(self, phase: str) -> Phase | None:
        """Returns a phase whose first repetition is a warm-up if there are others; None if there is none."""
        seconds = self.seconds.get(phase, ())
        first, rest = seconds[:1], seconds[1:]
        return Phase.of(rest or first, first if rest else ()) if first else None

    def predicted(self) -> Phase | None:
        """Returns the predictions; None if there are none."""
        seconds = self.seconds.get("predict")
        return Phase.of(seconds, self.seconds.get("warm-up", ())) if seconds else None
