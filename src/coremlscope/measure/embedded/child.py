"""The child process that runs an embedded engine, and sends what it finds to its parent.

The first line of its standard input names the file of a `ProcessRequest`. A second one says that the model to
measure is described, and that the parent leaves the processors alone from now on. The standard input stays
open as long as the parent wants the result. When it closes, the child sends what it has and exits.
"""

from __future__ import annotations

import importlib
import os
import pickle
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import msgspec.structs

from coremlscope.base.processes.channel import jobs, send, send_error
from coremlscope.base.processes.limits import end_with_parent, hold_to_limits, peak_memory_bytes
from coremlscope.base.writing import write_draft

if TYPE_CHECKING:
    from coremlscope.measure.contract import Progress
    from coremlscope.results.measurement import Settings

#: Seconds between messages: more would take processors from the engine.
_EVERY_S = 0.25


class ProcessRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The work of the process. The parent writes it to a private folder, so that it may be pickled.

    Attributes:
        work: Does it, and sends the result: `measure` or `call`.
        arguments: The arguments of `work`, after the report.
        time_s: The time limit, in seconds; None for none.
        memory_bytes: The memory limit; None for none.
    """

    work: Callable[..., None]
    arguments: Mapping[str, Any]
    time_s: float | None
    memory_bytes: int | None


def main() -> int:
    """Performs the request in the file."""
    requests = jobs()
    # Everything that takes time is imported while the parent reads the model.
    from coremlscope.formats import container
    from coremlscope.measure.embedded.measurer import EngineMeasurer
    from coremlscope.runtime.engines import engine

    for module in ("numpy.random", "PIL.Image"):  # for inputs
        importlib.import_module(module)
    del container, EngineMeasurer
    with suppress(ImportError):
        engine().preload()
    request: ProcessRequest | None = next(requests, None)
    if request is None:
        return 0
    hold_to_limits(request.time_s, request.memory_bytes)
    report = Report()
    end_with_parent(report.flush, report.told.set)
    try:
        request.work(report, **request.arguments)
    except Exception as error:
        report.flush()
        send_error(error)
    return 0


def time_files(
    files: Sequence[Path],
    settings: Sequence[Settings],
    inputs: Mapping[str, Any],
    threads: int | None,
    engine: str,
    progress: Progress | None = None,
) -> list[list[tuple[float, ...]]]:
    """Reads models, and times them as `time_interleaved` does."""
    from coremlscope.formats import container
    from coremlscope.measure.embedded.interleaved import time_interleaved
    from coremlscope.runtime.engines import engine as find_engine

    models = [container.read(file) for file in files]
    chosen = find_engine(engine)
    return time_interleaved(
        models, settings, inputs=inputs, threads=threads, engine=chosen, progress=progress
    )


def measure(
    report: Report,
    *,
    engine: str,
    threads: int | None,
    model: Path,
    subject: Path,
    settings: Any,
    inputs: Mapping[str, Any],
) -> None:
    """Measures a model, and sends the measurement.

    The model is read and compiled for the first time while the parent describes it. All else waits for that.

    Args:
        report: Sends repetitions.
        engine: The engine.
        threads: Threads that work on one operation; None for one per physical core.
        model: The model's file or folder.
        subject: The file with the other fields of `contract.MeasuredModel`, which the parent writes.
        settings: The settings.
        inputs: Values of inputs by name.
    """
    from coremlscope.formats import container
    from coremlscope.measure.contract import MeasuredModel
    from coremlscope.measure.embedded.measurer import EngineMeasurer
    from coremlscope.runtime.engines import engine as engine_of
    from coremlscope.runtime.engines.host import physical_cores

    def note(phase: str, seconds: float) -> None:
        report.send_repetition(phase, seconds)
        report.told.wait()

    def described() -> MeasuredModel:
        return MeasuredModel(model=whole, **pickle.loads(subject.read_bytes()))

    runs = engine_of(engine)
    send(runtime={"id": runs.name, "name": runs.title, "version": runs.version})
    measurer = EngineMeasurer(engine=runs, threads=threads, on_repetition=note)
    whole = container.read(model)
    if physical_cores() < 2:
        report.told.wait()
    measured = measurer.measure_model(whole, described, settings, inputs=inputs, progress=report.progress)
    report.flush()
    send(measurement=msgspec.structs.replace(measured, peak_memory_bytes=peak_memory_bytes()))


def call(
    report: Report,
    *,
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    result: Path,
    has_progress: bool,
) -> None:
    """Calls a function, and sends the file that contains what it returned.

    Args:
        report: Sends progress.
        function: The function.
        arguments: Its arguments.
        result: The file to write, in the private folder.
        has_progress: Whether the function takes the argument `progress`.
    """
    more = {"progress": report.progress} if has_progress else {}
    found = function(**arguments, **more)
    report.flush()
    write_draft(result, pickle.dumps(found))
    send(result=str(result))


class Report:
    """Sends repetitions to the parent, several at a time.

    Attributes:
        told: Set when the parent has sent a second line.
    """

    def __init__(self) -> None:
        self.told = threading.Event()
        self._lock = threading.Lock()
        self._phase, self._done, self._total = "", 0, 0
        self._seconds: list[float] = []
        self._sent = time.monotonic()

    def send_repetition(self, phase: str, seconds: float) -> None:
        """Notes the seconds of a repetition."""
        self._seconds.append(seconds)

    def progress(self, phase: str, done: int, total: int) -> None:
        """Notes the progress, and sends it if the last message was some time ago."""
        if phase != self._phase:
            self.flush()
        self._phase, self._done, self._total = phase, done, total
        if done <= 1 or done == total or time.monotonic() - self._sent > _EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Sends what was noted."""
        with self._lock:
            self._sent = time.monotonic()
            seconds, self._seconds = self._seconds, []
            if self._phase:
                send(phase=self._phase, done=self._done, total=self._total, seconds=seconds)


if __name__ == "__main__":
    os._exit(main())
