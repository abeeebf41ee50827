"""Runs jobs on a Ray cluster, which schedules them, tries them again and carries models to its nodes."""

from __future__ import annotations

import collections
import functools
import io
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import (
    CoremlscopeError,
    EngineError,
    MissingDependencyError,
    UsageError,
    how_to_install,
    known_error,
)
from coremlscope.base.libraries import import_quietly
from coremlscope.base.scratch import new_scratch
from coremlscope.base.version import __version__
from coremlscope.base.writing import write_draft
from coremlscope.formats import container
from coremlscope.results.encoding import plain
from coremlscope.studies.sweep.expansion import content_of_path
from coremlscope.studies.sweep.jobs import SweepJob
from coremlscope.studies.sweep.local import Rows
from coremlscope.studies.sweep.work import run_job

#: How often Ray begins a task again whose worker or node is lost, and tasks that wait for each processor.
_RETRIES, _AHEAD = 5, 3
#: Seconds of a processor that the jobs of a task should take, the most jobs of a task, and bytes of models
#: after which no job is added to it. A lost task is made again as a whole, so it should not be long.
_BATCH_S, _MOST, _BATCH_BYTES = 0.5, 256, 4 << 20
#: How often Ray begins a task of several jobs again; after that, each job is tried alone.
_BATCH_RETRIES = 2
#: The weight of the last task in the expected time of a job.
_WEIGHT = 0.2
#: Seconds between looks at the processors of the cluster.
_LOOK_S = 5.0
#: Seconds after which an answer of the cluster is looked for again, so that Ctrl-C takes effect.
_WAIT_S = 1.0


class PackedModel(msgspec.Struct, frozen=True):
    """The files of a model, on their way to another machine.

    Attributes:
        name: The name of the file or folder.
        files: The content of each file, by its path in the folder; the path of a single file is empty.
    """

    name: str
    files: Mapping[str, bytes]


class RayRunner:
    """Runs jobs on a cluster.

    A task takes one processor. Plans and estimates of small models are sent several in a task, since a task
    costs Ray as much as many of them take. A measurement is a task alone, and also takes one of each of the
    named resources, which nodes declare when they are started; of a resource of 1, one job at a time.

    Args:
        address: `auto` for the running cluster of this machine, `local` for one of its own, or an address.
        resources: What nodes must have to measure: `mac`, `m2`, `quiet`.
    """

    cores = 0

    def __init__(self, address: str, resources: Sequence[str] = ()) -> None:
        self._address, self._resources = address, tuple(resources)

    @property
    def place(self) -> str:
        """The resources of a node, on which measurements depend besides the model."""
        return " ".join(["ray", *sorted(self._resources)])

    def run(
        self, jobs: Iterable[SweepJob], done: Callable[[SweepJob, Rows | CoremlscopeError], None]
    ) -> None:
        """Runs jobs, a few of which wait for each processor of the cluster.

        Args:
            jobs: The jobs.
            done: Called in this thread with each job and its rows, or why there are none.

        Raises:
            MissingDependencyError: Ray is not installed.
            UsageError: There is no such cluster.
            EngineError: The node on which this process runs is lost.
            KeyboardInterrupt: Ctrl-C; the cluster has dropped the jobs.
        """
        with redirect_stdout(_WithoutRay(sys.stdout)):
            ray = _connect(self._address)
            try:
                self._run(ray, _Batches(jobs), done)
            finally:
                ray.shutdown()

    def _run(
        self, ray: Any, batches: _Batches, done: Callable[[SweepJob, Rows | CoremlscopeError], None]
    ) -> None:
        task = ray.remote(max_retries=_RETRIES, num_cpus=1)(run_batch)
        measuring = task.options(resources=dict.fromkeys(self._resources, 1)) if self._resources else task
        batched = task.options(max_retries=_BATCH_RETRIES)
        waiting: dict[Any, tuple[SweepJob, ...]] = {}
        models = _Stored(ray)
        cluster, own = _Processors(ray), _own_socket(ray)
        while True:
            while len(waiting) < _AHEAD * cluster.count() and (batch := batches.next()):
                chosen = measuring if batch[0].measuring is not None else batched if batch[1:] else task
                waiting[chosen.remote(batch, __version__, *map(models.put, batch))] = batch
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=_WAIT_S)
            if ready:  # and all others that are
                ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
            for one in ready:
                if own:
                    _check_node(own)
                batch = waiting.pop(one)
                answer = _answer(ray, one)
                if isinstance(answer, CoremlscopeError) and len(batch) > 1:
                    batches.put_back(batch)  # one of them may end its process, so each is tried alone
                elif isinstance(answer, CoremlscopeError):
                    done(batch[0], answer)
                else:
                    batches.learn(batch, answer.seconds)
                    for job, rows in zip(batch, answer.answers, strict=True):
                        done(job, rows)
                for job in batch:
                    models.drop(job)


class _Batches:
    """Jobs in groups, each of which takes about as long as `_BATCH_S`.

    Args:
        jobs: The jobs.
    """

    def __init__(self, jobs: Iterable[SweepJob]) -> None:
        self._jobs = iter(jobs)
        self._alone: collections.deque[SweepJob] = collections.deque()
        self._held: SweepJob | None = None
        self._each_s: float | None = None

    def next(self) -> tuple[SweepJob, ...]:
        """Returns the jobs of the next task; none after the last one."""
        if self._alone:
            return (self._alone.popleft(),)
        most = 1 if self._each_s is None else min(_MOST, max(1, int(_BATCH_S / max(self._each_s, 1e-9))))
        taken: list[SweepJob] = []
        size = 0
        while len(taken) < most and size < _BATCH_BYTES:
            job = self._held or next(self._jobs, None)
            self._held = None
            if job is None:
                break
            if job.measuring is not None and taken:
                self._held = job
                break
            taken.append(job)
            if job.measuring is not None:
                break
            size += _size(job)
        return tuple(taken)

    def put_back(self, batch: Iterable[SweepJob]) -> None:
        """Takes the jobs of a task that was lost; each is then a task of its own."""
        self._alone.extend(batch)

    def learn(self, batch: Sequence[SweepJob], seconds: float) -> None:
        """Takes into account how long a task worked on its jobs."""
        if batch[0].measuring is not None:
            return
        each_s = seconds / len(batch)
        self._each_s = each_s if self._each_s is None else self._each_s + _WEIGHT * (each_s - self._each_s)


def _size(job: SweepJob) -> int:
    """Returns the bytes of the model that is in a job; 0 if it is in a file."""
    source = job.subject.source
    if isinstance(source, Path):
        return 0
    return len(source if isinstance(source, bytes) else source.content)


class _Processors:
    """The processors of a cluster, which nodes join and leave."""

    def __init__(self, ray: Any) -> None:
        self._ray, self._count, self._seen = ray, 1, -math.inf

    def count(self) -> int:
        """Returns their number, as it was at most some seconds ago."""
        now = time.monotonic()
        if now - self._seen > _LOOK_S:
            self._count, self._seen = max(1, int(self._ray.cluster_resources().get("CPU", 1))), now
        return self._count


class _Stored:
    """Models in the object store, each once for all jobs that wait for it."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._held: dict[str, tuple[Any, int]] = {}

    def put(self, job: SweepJob) -> Any:
        """Returns the stored files of a job's model; None for one that is in the job itself."""
        source = job.subject.source
        if not isinstance(source, Path):
            return None
        known, count = self._held.get(job.subject.content, (None, 0))
        known = known or self._ray.put(pack(source))
        self._held[job.subject.content] = known, count + 1
        return known

    def drop(self, job: SweepJob) -> None:
        """Forgets the model of a finished job, unless another job waits for it."""
        known, count = self._held.pop(job.subject.content, (None, 0))
        if count > 1:
            self._held[job.subject.content] = known, count - 1


def _answer(ray: Any, one: Any) -> BatchAnswer | CoremlscopeError:
    try:
        answer: BatchAnswer = ray.get(one)
        return answer
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        return cause if isinstance(cause, CoremlscopeError) else EngineError(f"the job failed: {cause}", "")
    except ray.exceptions.RayError as error:
        kind = type(error).__name__
        return EngineError(f"the cluster lost the job {_RETRIES + 1} times: {kind}", "--retry makes it again")


def _own_socket(ray: Any) -> str:
    """Returns the socket on which the node of this process listens; empty where there is none."""
    here = ray.get_runtime_context().get_node_id()
    names = [str(node["ObjectStoreSocketName"]) for node in ray.nodes() if node["NodeID"] == here]
    return next((name for name in names if name.startswith("/")), "")


def _check_node(name: str) -> None:
    """Raises EngineError if nothing listens: Ray itself would end this process without a word."""
    try:
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(name)
    except OSError:
        raise EngineError(
            "the cluster lost the node of this machine, on which the sweep runs",
            "start it again; the same command goes on where the sweep stopped",
        ) from None


class _WithoutRay(io.TextIOBase):
    """A stream without what Ray's threads write to it: a page of counters for each node that is lost."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes what other threads write."""
        is_ray = threading.current_thread().name.startswith("ray_")
        return len(text) if is_ray else self._stream.write(text)

    def flush(self) -> None:
        """Flushes the stream."""
        self._stream.flush()


def _connect(address: str) -> Any:
    try:
        ray = import_quietly("ray")
    except ImportError:
        raise MissingDependencyError(
            "clusters are run by Ray, which is not installed", how_to_install("ray")
        ) from None
    try:
        options = {"include_dashboard": False} if address == "local" else {}
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise UsageError(
            f"there is no Ray cluster at {address}: {lines[0]}", "start one with `ray start --head`"
        ) from None
    return ray


def pack(path: Path) -> PackedModel:
    """Reads the files of a model; of one in an archive or app, its own.

    Raises:
        ModelError: It cannot be read.
    """
    place = container.on_disk(path)
    if place.is_file():
        return PackedModel(place.name, {"": place.read_bytes()})
    files = sorted(file for file in place.rglob("*") if file.is_file())
    return PackedModel(place.name, {file.relative_to(place).as_posix(): file.read_bytes() for file in files})


class BatchAnswer(msgspec.Struct, frozen=True):
    """The results of a task.

    Attributes:
        answers: The rows of each job as plain values, or why there are none.
        seconds: Processor time of the work on them, that of child processes included.
    """

    answers: tuple[Rows | CoremlscopeError, ...]
    seconds: float


def run_batch(jobs: Sequence[SweepJob], version: str, *packed: PackedModel | None) -> BatchAnswer:
    """Works on jobs on a node of the cluster.

    Args:
        jobs: The jobs.
        version: The version of coremlscope that made the jobs.
        packed: The files of each job's model, used where this node does not have them; None if it is in
            the job itself.

    Raises:
        EngineError: This node has another version.
    """
    if version != __version__:
        raise EngineError(
            f"the node {socket.gethostname()} has coremlscope {__version__}, and the sweep {version}",
            "install the same version on all nodes",
        )
    began = _processor_s()
    answers = tuple(_run_packed(job, model) for job, model in zip(jobs, packed, strict=True))
    return BatchAnswer(answers, _processor_s() - began)


def _processor_s() -> float:
    """Returns the processor time of this process and of its children that ended.

    On a busy node wall time is much longer, and tasks of few jobs would make it busier.
    """
    return sum(os.times()[:4])


def _run_packed(job: SweepJob, packed: PackedModel | None) -> Rows | CoremlscopeError:
    try:
        source = job.subject.source
        if isinstance(source, Path) and packed is not None and not _is_here(source, job.subject.content):
            place = _unpacked(job.subject.content, packed)
            job = replace(job, subject=replace(job.subject, source=place))
        return [plain(replace(row, host=socket.gethostname())) for row in run_job(job)]
    except Exception as error:  # one model must not stop the others
        return known_error(error, job.subject.name)


def _is_here(path: Path, content: str) -> bool:
    """Returns whether this node has the same model at the same path."""
    with suppress(CoremlscopeError, OSError):
        return path.exists() and content_of_path(path) == content
    return False


@functools.lru_cache(maxsize=1)
def _folder() -> Path:
    return new_scratch()


def _unpacked(content: str, packed: PackedModel) -> Path:
    """Writes the files of a model below a private folder of this process, once."""
    place = _folder() / content / packed.name
    if not place.exists():
        for name, data in packed.files.items():
            file = place / name if name else place
            file.parent.mkdir(parents=True, exist_ok=True)
            write_draft(file, data)
    return place
