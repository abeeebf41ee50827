"""Runs jobs on this machine: measurements one at a time on cores of their own, the others on the rest."""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.processes.child import ChildLimits, Task, python_child
from coremlscope.base.processes.pool import ChildPool, Lane
from coremlscope.measure.embedded.process import ENGINE
from coremlscope.runtime.engines.host import logical_processors, processor_name
from coremlscope.studies.sweep.jobs import SweepJob

CHILD = python_child("coremlscope.studies.sweep.child")
#: Rows as plain values.
Rows = Sequence[Mapping[str, Any]]

_TASK = Task("the job", "the other jobs do not depend on it; --retry makes it again", ENGINE)
#: How often a job is begun whose process is killed.
_ATTEMPTS = 3
#: Measuring jobs that wait while others are taken; more of them hold the others back.
_MOST_WAITING = 256


class LocalRunner:
    """Runs jobs in child processes.

    On Linux, measurements run on half of the cores, and other jobs on the rest at the same time. Other
    systems cannot reserve cores; there, and on a single core, measurements come after the others.

    Args:
        workers: Processes that plan and estimate; None for one for each core.
        measures: Whether there are measuring jobs, for which cores are reserved.
        command: The child process to run; tests give another one.
    """

    def __init__(
        self, workers: int | None = None, *, measures: bool = False, command: Sequence[str] = CHILD
    ) -> None:
        self._workers, self._command, self.measures = workers, command, measures
        self._all = _processors()
        self._reserved = frozenset(sorted(self._all)[-self.cores :])

    @property
    def place(self) -> str:
        """The processor, on which measurements depend besides the model."""
        return processor_name()

    @property
    def cores(self) -> int:
        """The number of logical processors that a measurement has to itself."""
        count = logical_processors()
        return max(1, count // 2) if self._all else count

    def run(
        self, jobs: Iterable[SweepJob], done: Callable[[SweepJob, Rows | CoremlscopeError], None]
    ) -> None:
        """Runs jobs, which are taken when a process is free.

        Args:
            jobs: The jobs.
            done: Called in this thread with each job and its rows, or why there are none.

        Raises:
            KeyboardInterrupt: Ctrl-C; all processes have ended.
        """
        pool: ChildPool[SweepJob, Rows] = ChildPool(
            self._command, _TASK, _read_rows, limits=ChildLimits(), attempts=_ATTEMPTS
        )
        count = logical_processors()
        rest = self._all - self._reserved
        if self.measures and rest:
            split = _Split(jobs, bound=_MOST_WAITING, is_closed=lambda: pool.is_closed)
            lanes = [
                Lane(split.take(measures=True), 1, self._reserved),
                Lane(split.take(measures=False), self._workers or len(rest), rest),
            ]
            pool.run(lanes, done)
            return
        split = _Split(jobs)
        pool.run([Lane(split.take(measures=False), self._workers or count)], done)
        if self.measures:
            pool.run([Lane(split.take(measures=True), 1)], done)


class _Split:
    """Jobs of two kinds, those that measure and others, taken from one iterable by several threads.

    Args:
        jobs: The jobs.
        bound: The most jobs of one kind that wait; None for any number.
        is_closed: Whether nobody takes jobs any more.
    """

    def __init__(
        self,
        jobs: Iterable[SweepJob],
        bound: int | None = None,
        is_closed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._jobs, self._bound, self._is_closed = iter(jobs), bound, is_closed
        self._waiting: dict[bool, collections.deque[SweepJob]] = {
            True: collections.deque(),
            False: collections.deque(),
        }
        self._changed = threading.Condition()
        self._is_over = False

    def take(self, *, measures: bool) -> Iterator[SweepJob]:
        """Yields the jobs of one kind."""
        while (job := self._next(measures)) is not None:
            yield job

    def _next(self, measures: bool) -> SweepJob | None:
        with self._changed:
            while True:
                if self._waiting[measures]:
                    self._changed.notify_all()
                    return self._waiting[measures].popleft()
                if self._is_over or self._is_closed():
                    return None
                if self._bound is not None and len(self._waiting[not measures]) >= self._bound:
                    self._changed.wait(0.1)
                    continue
                job = next(self._jobs, None)
                if job is None:
                    self._is_over = True
                    self._changed.notify_all()
                else:
                    self._waiting[job.measuring is not None].append(job)


def _read_rows(message: Mapping[str, Any]) -> Rows | None:
    rows: Rows | None = message.get("rows")
    return rows


def _processors() -> frozenset[int]:
    """Returns the logical processors of this process; empty where the system cannot restrict them."""
    if not hasattr(os, "sched_setaffinity") or not hasattr(os, "sched_getaffinity"):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))
