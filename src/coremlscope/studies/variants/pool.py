"""Makes variants in child processes, several at the same time. One that fails does not stop the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.processes.child import ChildLimits, Task, python_child
from coremlscope.base.processes.endings import Failures, KnownFailure
from coremlscope.base.processes.pool import ChildPool, Lane
from coremlscope.results.encoding import decode
from coremlscope.results.variants import Variant
from coremlscope.runtime.engines.host import physical_cores
from coremlscope.studies.variants.worker import VariantJob

CHILD = python_child("coremlscope.studies.variants.worker")
#: Memory of a process beside the model, and how often it holds the model: coremltools' program, its result,
#: and the engine's copy, in float32.
_OWN_BYTES, _COPIES = 1 << 30, 12
#: Variants by coremltools that are worth importing it once more.
_MANY = 2
_FAILURES = Failures(
    "it",
    (
        KnownFailure(
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


class VariantPool(ChildPool[VariantJob, Variant]):
    """Child processes that make variants.

    Args:
        workers: Number of processes.
        limits: When to give up on one variant.
        command: The child process to run; tests give another one.
    """

    def __init__(
        self, workers: int, limits: ChildLimits | None = None, command: Sequence[str] = CHILD
    ) -> None:
        super().__init__(command, _TASK, _read_variant, limits=limits)
        self._count = workers

    def make(
        self, jobs: Sequence[VariantJob], done: Callable[[int, Variant | CoremlscopeError], None]
    ) -> None:
        """Makes the variants of all jobs.

        Args:
            jobs: The jobs.
            done: Called in this thread with the index of a job and its variant, or why there is none.

        Raises:
            KeyboardInterrupt: Ctrl-C; the processes have ended, and `done` has got all that was complete.
        """
        places = {id(job): index for index, job in enumerate(jobs)}
        own = deque(job for job in jobs if not job.needs_coremltools)
        others = deque(job for job in jobs if job.needs_coremltools)
        lanes = [Lane(_taken(own, others), min(self._count, len(jobs)))]
        if self._count > 1 and own and others:
            # One process imports coremltools at once; the others only if several variants need it.
            rest = Lane(_taken(own, others, _MANY), min(self._count, len(jobs)) - 1)
            lanes = [rest, Lane(_taken(others, own), 1)]
        self.run(lanes, lambda job, answer: done(places[id(job)], answer))


def _taken(first: deque[VariantJob], then: deque[VariantJob], least: int = 1) -> Iterator[VariantJob]:
    """Yields jobs that several processes take from the same queues.

    Args:
        first: Those that are taken first.
        then: Those that are taken afterwards.
        least: How many of these are left to others.
    """
    while True:
        try:
            yield first.popleft()
        except IndexError:
            if len(then) < least:
                return
            with suppress(IndexError):
                yield then.popleft()


def _read_variant(message: Mapping[str, Any]) -> Variant | None:
    return decode(message["variant"], Variant) if "variant" in message else None
