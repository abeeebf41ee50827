"""Runs jobs on a Ray cluster, which schedules them, tries them again and carries models to its nodes."""

from __future__ import annotations

import functools
import os
import socket
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coremlscope.errors import CoremlscopeError, EngineError, MissingDependencyError, UsageError
from coremlscope.formats import container
from coremlscope.results.encoding import plain
from coremlscope.sweep.expansion import content_of_path
from coremlscope.sweep.jobs import Job
from coremlscope.sweep.local import Rows
from coremlscope.sweep.work import run_job
from coremlscope.version import __version__
from coremlscope.writing import write_draft

__all__ = ["PackedModel", "RayRunner", "pack", "run_packed"]

#: How often Ray begins a job again whose worker or node is lost, and jobs that wait for each processor.
_RETRIES, _AHEAD = 5, 3
#: Seconds after which an answer of the cluster is looked for again, so that Ctrl-C is heard.
_WAIT_S = 1.0
#: Ray sends statistics of its use unless this variable forbids it.
_USAGE = "RAY_USAGE_STATS_ENABLED"


@dataclass(frozen=True, slots=True)
class PackedModel:
    """The files of a model, on their way to another machine.

    Attributes:
        name: The name of the file or folder.
        files: The content of each file, by its path in the folder; the path of a single file is empty.
    """

    name: str
    files: Mapping[str, bytes]


class RayRunner:
    """Runs jobs on a cluster.

    Each job is a task of one processor. A measuring job also takes one of each of the named resources, which
    nodes declare when they are started; of a resource of 1, one job at a time.

    Args:
        address: `auto` for the running cluster of this machine, `local` for one of its own, or an address.
        resources: What nodes must have to measure: `mac`, `m2`, `quiet`.
    """

    cores = 0

    def __init__(self, address: str, resources: Sequence[str] = ()) -> None:
        self._address, self._resources = address, tuple(resources)

    @property
    def place(self) -> str:
        """What measurements depend on besides the model: the resources of the node."""
        return " ".join(["ray", *sorted(self._resources)])

    def run(self, jobs: Iterable[Job], done: Callable[[Job, Rows | CoremlscopeError], None]) -> None:
        """Runs jobs, a few of which wait for each processor of the cluster.

        Args:
            jobs: The jobs.
            done: Called in this thread with each job and its rows, or why there are none.

        Raises:
            MissingDependencyError: Ray is not installed.
            UsageError: There is no such cluster.
            KeyboardInterrupt: Ctrl-C; the cluster has dropped the jobs.
        """
        ray = _connect(self._address)
        try:
            self._run(ray, iter(jobs), done)
        finally:
            ray.shutdown()

    def _run(self, ray: Any, jobs: Any, done: Callable[[Job, Rows | CoremlscopeError], None]) -> None:
        task = ray.remote(max_retries=_RETRIES, num_cpus=1)(run_packed)
        measuring = task.options(resources=dict.fromkeys(self._resources, 1)) if self._resources else task
        waiting: dict[Any, Job] = {}
        models = _Stored(ray)
        most = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while True:
            while len(waiting) < most and (job := next(jobs, None)) is not None:
                chosen = task if job.measuring is None else measuring
                waiting[chosen.remote(job, models.put(job), __version__)] = job
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=_WAIT_S)
            if ready:  # and all others that are
                ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
            for one in ready:
                job = waiting.pop(one)
                done(job, _answer(ray, one))
                models.drop(job)


class _Stored:
    """Models in the object store, each once for all jobs that wait for it."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._held: dict[str, tuple[Any, int]] = {}

    def put(self, job: Job) -> Any:
        """Returns the stored files of a job's model; None for one that is in the job itself."""
        source = job.subject.source
        if not isinstance(source, Path):
            return None
        known, count = self._held.get(job.subject.content, (None, 0))
        known = known or self._ray.put(pack(source))
        self._held[job.subject.content] = known, count + 1
        return known

    def drop(self, job: Job) -> None:
        """Forgets the model of a finished job, unless another job waits for it."""
        known, count = self._held.pop(job.subject.content, (None, 0))
        if count > 1:
            self._held[job.subject.content] = known, count - 1


def _answer(ray: Any, one: Any) -> Rows | CoremlscopeError:
    try:
        rows: Rows = ray.get(one)
        return rows
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        return cause if isinstance(cause, CoremlscopeError) else EngineError(f"the job failed: {cause}", "")
    except ray.exceptions.RayError as error:
        kind = type(error).__name__
        return EngineError(f"the cluster lost the job {_RETRIES + 1} times: {kind}", "--retry makes it again")


def _connect(address: str) -> Any:
    os.environ.setdefault(_USAGE, "0")
    try:
        import ray
    except ImportError:
        raise MissingDependencyError(
            "clusters are run by Ray, which is not installed", "pip install 'coremlscope[ray]'"
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


def run_packed(job: Job, packed: PackedModel | None, version: str) -> list[Any]:
    """Works on a job on a node of the cluster.

    Args:
        job: The job.
        packed: The files of its model, used where this node does not have them; None if it is in the job.
        version: The version of coremlscope that made the job.

    Returns:
        Its rows as plain values.

    Raises:
        EngineError: This node has another version.
    """
    if version != __version__:
        raise EngineError(
            f"the node {socket.gethostname()} has coremlscope {__version__}, and the sweep {version}",
            "install the same version on all nodes",
        )
    source = job.subject.source
    if isinstance(source, Path) and packed is not None and not _is_here(source, job.subject.content):
        place = _unpacked(job.subject.content, packed)
        job = replace(job, subject=replace(job.subject, source=place))
    return [plain(row) for row in run_job(job)]


def _is_here(path: Path, content: str) -> bool:
    """Returns whether this node has the same model at the same path."""
    with suppress(CoremlscopeError, OSError):
        return path.exists() and content_of_path(path) == content
    return False


@functools.lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="coremlscope-", ignore_cleanup_errors=True)


def _unpacked(content: str, packed: PackedModel) -> Path:
    """Writes the files of a model below a private folder of this process, once."""
    place = Path(_folder().name) / content / packed.name
    if not place.exists():
        for name, data in packed.files.items():
            file = place / name if name else place
            file.parent.mkdir(parents=True, exist_ok=True)
            write_draft(file, data)
    return place
