"""Runs jobs in child processes, several at the same time. One that fails does not stop the others."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from coremlscope.base.errors import CoremlscopeError, EngineError, LimitError
from coremlscope.base.processes.channel import rebuild_error
from coremlscope.base.processes.child import Child, ChildLimits, Task
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.writing import temporary_error, write_draft

JobT = TypeVar("JobT")
AnswerT = TypeVar("AnswerT")


class Lane(msgspec.Struct, Generic[JobT], frozen=True):
    """Jobs, and the processes that work on them.

    Attributes:
        jobs: The jobs, which can be pickled. They are taken one by one, when a process is free.
        workers: Number of processes.
        cores: The logical processors that the processes and what they start may use; None for all. Only
            Linux restricts processes to them.
    """

    jobs: Iterable[JobT]
    workers: int
    cores: frozenset[int] | None = None


class ChildPool(Generic[JobT, AnswerT]):
    """Child processes that answer jobs.

    A process reads the names of files with pickled jobs from its standard input, and sends one message for
    each: an answer or an error.

    Args:
        command: The child process to run.
        task: What it does, for messages about its failures.
        read: Returns the answer in a message; None if it contains none.
        limits: When to give up on one job.
        attempts: How often a job is begun whose process ends, as when the system kills it.
        renewed_after: Number of jobs after which a process is replaced, so that its memory stays bounded.
    """

    def __init__(
        self,
        command: Sequence[str],
        task: Task,
        read: Callable[[Mapping[str, Any]], AnswerT | None],
        *,
        limits: ChildLimits | None = None,
        attempts: int = 1,
        renewed_after: int = 500,
    ) -> None:
        self._command, self._task, self._read = command, task, read
        self._limits = limits or ChildLimits()
        self._attempts, self._renewed_after = attempts, renewed_after
        self._lock = threading.Lock()
        self._children: set[Child] = set()
        self._is_closed = False

    def run(
        self, lanes: Sequence[Lane[JobT]], done: Callable[[JobT, AnswerT | CoremlscopeError], None]
    ) -> None:
        """Runs all jobs.

        Args:
            lanes: The jobs; lanes work at the same time.
            done: Called in this thread with a job and its answer, or why there is none.

        Raises:
            KeyboardInterrupt: Ctrl-C; the processes have ended, and `done` has got all that was complete.
        """
        finished: queue.SimpleQueue[_Finished[JobT, AnswerT]] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=self._work, args=(jobs, lane.cores, finished), daemon=True)
            for lane in lanes
            for jobs in [_Shared(lane.jobs)]
            for _ in range(lane.workers)
        ]
        started: list[threading.Thread] = []
        try:
            for thread in threads:
                thread.start()
                started.append(thread)
            working = len(threads)
            while working:
                one = finished.get()
                if one is None:
                    working -= 1
                elif isinstance(one, BaseException):
                    raise one
                else:
                    done(*one)
        except BaseException:
            self.close()
            raise
        finally:
            for thread in started:
                thread.join()

    @property
    def is_closed(self) -> bool:
        """True after `close`: jobs are no longer taken."""
        return self._is_closed

    def close(self) -> None:
        """Ends all processes. The thread that started one waits for its end, and removes what it leaves."""
        with self._lock:
            self._is_closed = True
            children = list(self._children)
        for child in children:
            child.stop()

    def _work(
        self,
        jobs: _Shared[JobT],
        cores: frozenset[int] | None,
        finished: queue.SimpleQueue[_Finished[JobT, AnswerT]],
    ) -> None:
        """Runs jobs until none is left, and reports the end. A process that failed is replaced."""
        try:
            if cores is not None and hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, cores)  # of this thread, and of the processes that it starts
            with contextlib.ExitStack() as stack:
                self._take(jobs, stack, finished)
        except BaseException as error:
            finished.put(error)
        finished.put(None)

    def _take(
        self,
        jobs: _Shared[JobT],
        stack: contextlib.ExitStack,
        finished: queue.SimpleQueue[_Finished[JobT, AnswerT]],
    ) -> None:
        worker: _Worker | None = None
        while not self._is_closed and (job := jobs.next()) is not None:
            for attempt in range(1, self._attempts + 1):
                has_failed, is_tried_again = False, False
                try:
                    if worker is None:
                        worker = stack.enter_context(self._worker())
                    finished.put((job, worker.ask(job, self._read)))
                except CoremlscopeError as error:
                    if self._is_closed:
                        return
                    has_ended = worker is not None and worker.has_ended
                    # A process that reached a limit still works on the job.
                    has_failed = worker is None or has_ended or isinstance(error, LimitError)
                    is_tried_again = has_ended and attempt < self._attempts
                    if not is_tried_again:
                        finished.put((job, error))
                if has_failed or worker is None or worker.asked >= self._renewed_after:
                    worker = None
                    stack.close()
                if not is_tried_again:
                    break

    @contextmanager
    def _worker(self) -> Iterator[_Worker]:
        try:
            scratch = scratch_folder()
        except OSError as error:
            raise temporary_error(error) from error
        with scratch as folder:
            names = ("TMPDIR",) if os.name == "posix" else ("TEMP", "TMP")
            environment = {**dict.fromkeys(names, folder), "OMP_NUM_THREADS": "1"}
            child = Child(self._command, environment=environment, is_attached=True)
            with self._lock:
                self._children.add(child)
                is_late = self._is_closed
            try:
                if is_late:
                    child.stop()
                yield _Worker(child=child, folder=Path(folder), limits=self._limits, task=self._task)
            finally:
                child.close()
                with self._lock:
                    self._children.discard(child)


#: A job with its answer; an exception of a thread; None where a thread has ended.
_Finished = tuple[JobT, AnswerT | CoremlscopeError] | BaseException | None


class _Shared(Generic[JobT]):
    """Jobs that several threads take from one iterable."""

    def __init__(self, jobs: Iterable[JobT]) -> None:
        self._jobs, self._lock = iter(jobs), threading.Lock()

    def next(self) -> JobT | None:
        """Returns the next job, or None after the last one."""
        with self._lock:
            return next(self._jobs, None)


@dataclass(slots=True, kw_only=True)
class _Worker:
    """A child process, and its requests.

    Attributes:
        child: The process.
        folder: Its private folder.
        limits: When to give up on a job.
        task: What it does.
        asked: The number of jobs so far.
        has_ended: True if it ended in a job.
    """

    child: Child
    folder: Path
    limits: ChildLimits
    task: Task
    asked: int = 0
    has_ended: bool = False

    def ask(self, job: object, read: Callable[[Mapping[str, Any]], AnswerT | None]) -> AnswerT:
        """Returns the answer to a job.

        Raises:
            CoremlscopeError: There is none.
        """
        self.asked += 1
        file = self.folder / "job"
        try:
            write_draft(file, pickle.dumps(job))
        except OSError as error:
            raise temporary_error(error) from error
        self.child.send(str(file))
        for message in self.child.messages(self.limits, self.task):
            answer = read(message)
            if answer is not None:
                return answer
            if "error" in message:
                raise rebuild_error(message)
        self.has_ended = True
        self.child.check_end(self.task)
        raise EngineError(f"{self.task.name} failed without a message", self.task.hint)
