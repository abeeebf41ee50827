"""The child process that measures with an embedded engine, and sends each repetition to its parent.

The first line of its standard input names the file of a `Request`. The standard input stays open after it, as
long as the parent wants the measurement: at its end the child sends what it has, and ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coremlscope.measure.channel import open_channel, tell

__all__ = ["Request", "main"]

#: Seconds between messages: more would take processors from the engine.
_EVERY_S = 0.25
#: What the kernel allows beyond the memory limit, which counts what is used: stacks and reserves.
_RESERVED_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is measured. The parent writes it to a private folder, so that it may be pickled.

    Attributes:
        model: The model's file or folder.
        subject: The other fields of `contract.Subject`.
        settings: The settings.
        inputs: Values of inputs by name.
        engine: The engine.
        threads: Threads that work on one operation; None for one per physical core.
        time_s: The time limit, in seconds; None for none.
        memory_bytes: The memory limit; None for none.
    """

    model: Path
    subject: Mapping[str, Any]
    settings: Any
    inputs: Mapping[str, Any]
    engine: str
    threads: int | None
    time_s: float | None
    memory_bytes: int | None


def main() -> int:
    """Measures, and sends the measurement."""
    open_channel()
    # The parent gets the signal, too, and decides what becomes of the measurement.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Everything that takes time is imported while the parent reads the model.
    from coremlscope.engines import engine
    from coremlscope.errors import CoremlscopeError, EngineError, UnsupportedOpError
    from coremlscope.formats import container
    from coremlscope.measure.contract import Subject
    from coremlscope.measure.engine import EngineMeasurer

    with suppress(ImportError):
        engine().preload()
    named = sys.stdin.readline().strip()
    if not named:
        return 0
    request: Request = pickle.loads(Path(named).read_bytes())
    _limit(request)
    report = _Report()
    threading.Thread(target=_follow_parent, args=[report], name="parent", daemon=True).start()
    runs = engine(request.engine)
    tell(runtime={"id": runs.name, "name": runs.title, "version": runs.version})
    measurer = EngineMeasurer(engine=runs, threads=request.threads, heard=report.hear)
    try:
        subject = Subject(model=container.read(request.model), **request.subject)
        measured = measurer.measure(
            subject, request.settings, inputs=request.inputs, progress=report.progress
        )
    except UnsupportedOpError as error:
        tell(error=type(error).__name__, ops=error.ops)
    except CoremlscopeError as error:
        report.flush()
        tell(error=type(error).__name__, message=error.message, hint=error.hint)
    except MemoryError:
        report.flush()
        message = "the memory was not enough to compile and run the model"
        tell(error=EngineError.__name__, message=message, hint="close other programs, or raise --memory")
    else:
        report.flush()
        tell(measurement=measured)
    return 0


def _limit(request: Request) -> None:
    """Holds the process to its limits where the parent cannot, and offers it to the system first."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if request.time_s is not None:
        seconds = int(request.time_s * (os.cpu_count() or 1)) + 1
        _lower(resource.RLIMIT_CPU, seconds)
    if request.memory_bytes is not None:
        _lower(resource.RLIMIT_DATA, request.memory_bytes + _RESERVED_BYTES)


def _lower(kind: int, wanted: int) -> None:
    import resource

    soft, hard = resource.getrlimit(kind)
    known = [limit for limit in (wanted, soft, hard) if limit != resource.RLIM_INFINITY]
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (min(known), hard))


class _Report:
    """Sends repetitions to the parent, several at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._phase, self._done, self._total = "", 0, 0
        self._seconds: list[float] = []
        self._sent = time.monotonic()

    def hear(self, phase: str, seconds: float) -> None:
        """Notes the seconds of a repetition."""
        self._seconds.append(seconds)

    def progress(self, phase: str, done: int, total: int) -> None:
        """Notes the progress, and sends it if the last message was some time ago."""
        if phase != self._phase:
            self.flush()
        self._phase, self._done, self._total = phase, done, total
        if done in (0, total) or time.monotonic() - self._sent > _EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Sends what was noted."""
        with self._lock:
            self._sent = time.monotonic()
            seconds, self._seconds = self._seconds, []
            if self._phase:
                tell(phase=self._phase, done=self._done, total=self._total, seconds=seconds)


def _follow_parent(report: _Report) -> None:
    """Ends the process when the parent closes the standard input, or ends itself."""
    with suppress(OSError):
        while os.read(sys.stdin.fileno(), 1024):
            pass
    with suppress(OSError):
        report.flush()
    os._exit(0)


if __name__ == "__main__":
    os._exit(main())
