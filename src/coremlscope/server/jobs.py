"""A queue that profiles models and imports files in sequence, each in a process that can be stopped."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from coremlscope.base.errors import UsageError, known_error
from coremlscope.base.processes.child import Child, ChildLimits, Task, python_child
from coremlscope.measure.embedded.process import ENGINE

JobStatus = Literal["waiting", "running", "done", "failed", "cancelled"]
#: Maximum number of waiting jobs, and of ended jobs in the list.
_MOST_WAITING, _REMEMBERED = 20, 20
#: Seconds that a process has to end after it was stopped.
_GRACE_S = 3.0
NO_LIMITS = ChildLimits()
_TASK = Task(
    "the job", "`coremlscope inspect` and `coremlscope estimate` work without running the model", ENGINE
)


class Job(msgspec.Struct, kw_only=True):
    """The profiling of a model, the addition of devices to its profile, or the import of a file.

    Attributes:
        id: A unique number.
        model: The name of the uploaded file.
        status: Its state.
        phase: The phase that is being repeated: `compile`, `load`, `predict`, …
        done: Number of completed repetitions of that phase.
        total: Total number of repetitions.
        profile: The id of the saved profile; empty if there is none.
        error: The error message; empty if it did not fail.
        hint: Advice on the error.
        request: The requested options, see `worker.main`; `of` is the id of a profile that is extended.
    """

    id: int
    model: str
    status: JobStatus = "waiting"
    phase: str = ""
    done: int = 0
    total: int = 0
    profile: str = ""
    error: str = ""
    hint: str = ""
    request: Mapping[str, Any] = msgspec.field(default_factory=dict)


class JobQueue:
    """A queue that profiles models in sequence.

    Args:
        keep: Called with the JSON file of a profile, the job and the uploaded file; returns the profile's id.
        command: The command that profiles a model. Its arguments are the model, the file to write, and the
            request as JSON.
        limits: When to give up a job.
    """

    def __init__(
        self,
        keep: Callable[[Path, Job, Path], str],
        command: tuple[str, ...] = python_child("coremlscope.server.worker"),
        limits: ChildLimits = NO_LIMITS,
    ) -> None:
        self._keep, self._command, self._limits = keep, command, limits
        self._ids = itertools.count(1)
        self._jobs: dict[int, tuple[Job, Path]] = {}
        #: Changes with each change of a job.
        self.revision = 0
        self._changed = threading.Condition()
        self._child: Child | None = None
        self._is_open = True
        self._thread = threading.Thread(target=self._work, name="profiles", daemon=True)
        self._thread.start()

    def add(self, model: Path, request: Mapping[str, Any]) -> Job:
        """Queues a model.

        Args:
            model: The file, alone in a folder that is removed when the job ends.
            request: See `worker.main`.

        Raises:
            UsageError: Too many jobs are waiting.
        """
        with self._changed:
            self.check_place()
            job = Job(id=next(self._ids), model=model.name, request=request)
            self._jobs[job.id] = job, model
            self._forget_old()
            self._note_change()
            return job

    def check_place(self) -> None:
        """Checks that a model can be queued.

        Raises:
            UsageError: Too many jobs are waiting.
        """
        with self._changed:
            waiting = sum(job.status == "waiting" for job, _ in self._jobs.values())
            if not self._is_open or waiting >= _MOST_WAITING:
                raise UsageError(
                    f"the queue is full: {waiting} models are waiting", "wait until some are done"
                )

    def jobs(self) -> list[Job]:
        """Returns the jobs, newest first, with only the most recent of those that ended."""
        with self._changed:
            return [job for job, _ in reversed(self._jobs.values())]

    def cancel(self, id_: int) -> None:
        """Stops a job, or removes it from the queue. Jobs that have ended do not change.

        Raises:
            UsageError: The id is unknown.
        """
        with self._changed:
            if id_ not in self._jobs:
                raise UsageError(f"unknown job {id_}", "it may have ended long ago")
            job, model = self._jobs[id_]
            if job.status == "waiting":
                shutil.rmtree(model.parent, ignore_errors=True)
            if job.status in ("waiting", "running"):
                was_running, job.status = job.status == "running", "cancelled"
                self._note_change()
                if was_running and self._child is not None:
                    self._child.stop()

    def follow(self, old: str, new: str) -> None:
        """Follows the new name of a profile, in jobs that made it and in those that add devices to it.

        Args:
            old: The id that it had.
            new: The new one; empty if the profile was deleted, which stops the jobs that would change it.
        """
        with self._changed:
            stopped = []
            for job, _ in self._jobs.values():
                if job.profile == old:
                    job.profile = new
                if job.request.get("of") == old and job.status in ("waiting", "running"):
                    job.request = {**job.request, "of": new}
                    stopped += [] if new else [job.id]
            self._note_change()
        for id_ in stopped:
            self.cancel(id_)

    def close(self) -> None:
        """Stops all jobs, and waits until they have stopped."""
        with self._changed:
            self._is_open = False
            for job, model in self._jobs.values():
                if job.status == "waiting":
                    shutil.rmtree(model.parent, ignore_errors=True)
                if job.status in ("waiting", "running"):
                    job.status = "cancelled"
            if self._child is not None:
                self._child.stop()
            self._changed.notify_all()
        self._thread.join(timeout=2 * _GRACE_S)

    def _note_change(self) -> None:
        self.revision += 1
        self._changed.notify_all()

    def _forget_old(self) -> None:
        ended = [id_ for id_, (job, _) in self._jobs.items() if job.status not in ("waiting", "running")]
        for id_ in ended[: max(0, len(ended) - _REMEMBERED)]:
            del self._jobs[id_]

    def _next(self) -> tuple[Job, Path] | None:
        with self._changed:
            while self._is_open:
                for job, model in self._jobs.values():
                    if job.status == "waiting":
                        job.status = "running"
                        self._note_change()
                        return job, model
                self._changed.wait()
        return None

    def _work(self) -> None:
        while (following := self._next()) is not None:
            job, model = following
            try:
                self._profile(job, model)
            except Exception as error:  # the jobs after it still have to be done
                known = known_error(error, job.model)
                self._end(job, "failed", error=known.message, hint=known.hint)
            finally:
                shutil.rmtree(model.parent, ignore_errors=True)

    def _profile(self, job: Job, model: Path) -> None:
        target = model.parent / "profile.json"
        held = {"time_s": self._limits.time_s, "memory_bytes": self._limits.memory_bytes}
        # Run in the model's folder, so that messages and the report contain its name instead of its path.
        arguments = [*self._command, model.name, target.name, json.dumps({**job.request, "limits": held})]
        with self._changed:
            if job.status != "running":
                return
            # Temporary files of a process that is stopped are removed with the folder.
            self._child = child = Child(
                arguments,
                environment=dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(model.parent)),
                is_attached=True,
                folder=model.parent,
            )
        failure = {"error": "", "hint": ""}
        try:
            for message in child.messages(self._limits, _TASK):
                self._record(job, message, failure)
            if not failure["error"]:
                child.check_end(_TASK)
        finally:
            with self._changed:
                self._child = None
            child.close()
        if failure["error"]:
            # What is known of a model that could not be run is kept.
            kept = self._keep(target, job, model) if target.is_file() else ""
            self._end(job, "failed", profile=kept, **failure)
        elif target.is_file():
            self._end(job, "done", profile=self._keep(target, job, model))
        else:
            self._end(job, "failed", error="the profiler wrote no profile")

    def _record(self, job: Job, message: Mapping[str, Any], failure: dict[str, str]) -> None:
        """Records a message of the profiler: its progress or its failure; others are ignored."""
        with contextlib.suppress(KeyError, TypeError, ValueError):
            if "error" in message:
                failure.update(error=str(message["error"]), hint=str(message.get("hint", "")))
            else:
                phase, done, total = str(message["phase"]), int(message["done"]), int(message["total"])
                with self._changed:
                    job.phase, job.done, job.total = phase, done, total
                    self._note_change()

    def _end(
        self, job: Job, status: JobStatus, *, profile: str = "", error: str = "", hint: str = ""
    ) -> None:
        with self._changed:
            if job.status != "cancelled":
                job.status, job.profile, job.error, job.hint = status, profile, error, hint
                self._note_change()
