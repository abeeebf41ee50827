"""Makes variants in child processes, several at the same time. One that fails does not stop the others."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import queue
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from coremlscope.engines.host import physical_cores
from coremlscope.errors import CoremlscopeError, EngineError, LimitError
from coremlscope.measure.child import Child, Limits, Task, python_child
from coremlscope.measure.endings import Failure, Failures
from coremlscope.measure.engine_process import rebuild_error
from coremlscope.results.encoding import decode
from coremlscope.results.variants import Variant
from coremlscope.variants.worker import Job
from coremlscope.writing import write_draft

__all__ = ["CHILD", "Pool", "worker_count"]

CHILD = python_child("coremlscope.variants.worker")
#: What a process takes beside the model, and how often it holds the model: coremltools' program, its result,
#: and the engine's copy, in float32.
_OWN_BYTES, _COPIES = 1 << 30, 12
_FAILURES = Failures(
    "it",
    (
        Failure(
            r"std::bad_alloc|MemoryError|[Ff]ailed to allocate memory|Cannot allocate memory",
            "the memory was not enough",
            "close other programs, or use --workers 1",
        ),
    ),
)
_TASK = Task("the variant", "the other variants do not depend on it", _FAILURES)


def worker_count(model_bytes: int, memory_bytes: int, wanted: int | None = None) -> int:
    """Returns how many processes work at the same time.

    Args:
        model_bytes: The size of the model.
        memory_bytes: The memory of this machine.
        wanted: A number that was asked for.
    """
    fitting = memory_bytes // (_OWN_BYTES + _COPIES * model_bytes)
    return wanted or max(1, min(physical_cores(), fitting))


class Pool:
    """Child processes that make variants.

    Args:
        workers: Number of processes.
        limits: When to give up on one variant.
        command: The child process to run; tests give another one.
    """

    def __init__(self, workers: int, limits: Limits | None = None, command: Sequence[str] = CHILD) -> None:
        self._count = workers
        self._limits = limits or Limits()
        self._command = command
        self._lock = threading.Lock()
        self._children: set[Child] = set()
        self._is_closed = False

    def make(self, jobs: Sequence[Job], done: Callable[[int, Variant | CoremlscopeError], None]) -> None:
        """Makes the variants of all jobs.

        Args:
            jobs: The jobs.
            done: Called in this thread with the index of a job and its variant, or why there is none.

        Raises:
            KeyboardInterrupt: Ctrl-C; the processes have ended, and `done` has got all that was complete.
        """
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        finished: queue.SimpleQueue[tuple[int, Variant | CoremlscopeError]] = queue.SimpleQueue()
        for index in range(len(jobs)):
            waiting.put(index)
        threads = [
            threading.Thread(target=self._work, args=(jobs, waiting, finished), daemon=True)
            for _ in range(min(self._count, len(jobs)))
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in jobs:
                done(*finished.get())
        except BaseException:
            self.close()
            raise
        finally:
            for thread in threads:
                thread.join()

    def close(self) -> None:
        """Ends all processes."""
        with self._lock:
            self._is_closed = True
            children = list(self._children)
        for child in children:
            child.close()

    def _work(
        self,
        jobs: Sequence[Job],
        waiting: queue.SimpleQueue[int],
        finished: queue.SimpleQueue[tuple[int, Variant | CoremlscopeError]],
    ) -> None:
        """Makes variants until none is waiting. A process that failed is replaced."""
        worker: _Worker | None = None
        with contextlib.ExitStack() as stack:
            while not self._is_closed:
                try:
                    index = waiting.get_nowait()
                except queue.Empty:
                    return
                if worker is None:
                    worker = stack.enter_context(self._worker())
                try:
                    finished.put((index, worker.ask(jobs[index])))
                except CoremlscopeError as error:
                    # A process that reached a limit still works on the job.
                    if worker.has_ended or isinstance(error, LimitError):
                        worker = None
                    finished.put((index, error))
                except (OSError, ValueError):  # its pipes were closed meanwhile
                    finished.put((index, EngineError("it was interrupted", "make it again")))
                    return

    @contextmanager
    def _worker(self) -> Iterator[_Worker]:
        with tempfile.TemporaryDirectory(prefix="coremlscope-", ignore_cleanup_errors=True) as folder:
            names = ("TMPDIR",) if os.name == "posix" else ("TEMP", "TMP")
            environment = {**dict.fromkeys(names, folder), "OMP_NUM_THREADS": "1"}
            child = Child(self._command, environment=environment, is_attached=True)
            with self._lock:
                self._children.add(child)
            try:
                yield _Worker(child, Path(folder), self._limits)
            finally:
                child.close()
                with self._lock:
                    self._children.discard(child)


@dataclasses.dataclass(slots=True)
class _Worker:
    """A child process, and what it has been asked."""

    child: Child
    folder: Path
    limits: Limits
    has_ended: bool = False

    def ask(self, job: Job) -> Variant:
        """Returns the variant of a job.

        Raises:
            CoremlscopeError: There is none.
        """
        file = self.folder / "job"
        write_draft(file, pickle.dumps(job))
        self.child.send(str(file))
        for message in self.child.messages(self.limits, _TASK):
            if "variant" in message:
                return decode(message["variant"], Variant)
            if "error" in message:
                raise rebuild_error(message)
        self.has_ended = True
        self.child.check_end(_TASK)
        raise EngineError("the variant failed without a message", _TASK.hint)
