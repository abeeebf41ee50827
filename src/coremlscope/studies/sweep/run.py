"""Runs a sweep: jobs on this machine or a cluster, and their results into a folder."""

from __future__ import annotations

import collections
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec.structs

from coremlscope.api.own_measurements.using import use_own
from coremlscope.base.errors import CoremlscopeError, UsageError, known_error
from coremlscope.base.escaping import path_text
from coremlscope.base.folders import short_names
from coremlscope.devices import expand_names, find_device
from coremlscope.devices.targets import Targets
from coremlscope.interop.source import is_readable
from coremlscope.results.encoding import plain
from coremlscope.results.sweep import FailedModel, SweepProgress, SweepSummary
from coremlscope.studies.sweep.expansion import Expander, Graph, content_of_path, find_sources
from coremlscope.studies.sweep.jobs import Measuring, SweepJob, failed_rows, timestamp
from coremlscope.studies.sweep.local import LocalRunner, Rows
from coremlscope.studies.sweep.profiles import imported_rows
from coremlscope.studies.sweep.rows import prepare_arrow
from coremlscope.studies.sweep.store import RESULTS, ResultStore, Writer
from coremlscope.studies.sweep.table import write_tables
from coremlscope.studies.sweep.wanted import Wanted

if TYPE_CHECKING:
    from coremlscope.studies.sweep.ray_cluster import RayRunner

#: Called whenever a job is done.
Shown = Callable[[SweepProgress], None]


def run_sweep(
    *sources: str | os.PathLike[str],
    graphs: Iterable[tuple[str, Graph]] = (),
    folder: str | os.PathLike[str] = RESULTS,
    devices: str | Sequence[str] | Targets = (),
    measuring: Measuring | None = None,
    functions: Sequence[str] = ("",),
    shapes: Sequence[Mapping[str, Sequence[int]]] = (),
    variants: Sequence[str] = ("",),
    labels: Mapping[str, str | float] | None = None,
    workers: int | RayRunner | None = None,
    retry: bool = False,
    progress: Shown | None = None,
) -> SweepSummary:
    """Plans, estimates and measures many models, and keeps the results in a folder: `estimates.parquet`,
    `plans.parquet` and `times.parquet`, and a page.

    Results that exist already are not made again: each has an address, a hash of the model's content, the
    options and the versions. If this process or its children are killed, only unfinished jobs are lost.

    Args:
        *sources: Models, folders and archives with models, patterns, saved profiles (which are imported), and
            lists of models with options of their own (`.toml`).
        graphs: Names and models without files: bytes of a specification, models that `read` returned, or
            models of coremltools. They are taken one by one.
        folder: The folder of results, which several sweeps may write at the same time.
        devices: Chips or devices to plan and estimate for: `m1`, `iphone-15-pro`; as `Targets` also with the
            version of their systems and with compute units.
        measuring: How models are measured, here or where the cluster runs the job; None for no measurements.
        functions: The functions; an empty name for the default one, `every` for all.
        shapes: Sets of shapes of flexible inputs; none for the defaults.
        variants: Transforms of coremltools that are applied first; an empty name for the model as it is.
        labels: Texts and numbers that are attached to the results.
        workers: Processes that plan and estimate, None for one per core; or a Ray cluster:
            `RayRunner("auto", on=("mac", "quiet"))`.
        retry: Makes results again that failed before.
        progress: Called whenever a job is done.

    Returns:
        What was done. Failures of models are in it; they raise nothing.

    Raises:
        UsageError: An argument or a list is wrong, or nothing is asked for.
        ModelError: A path does not exist.
        OutputError: The folder cannot be written.
        MissingDependencyError: pyarrow or Ray is not installed.
    """
    targets, (texts, numbers) = Targets.of(devices), _split(labels or {})
    wanted = Wanted(
        devices=expand_names(targets.names),
        os=targets.os,
        compute_units=targets.settings,
        measuring=measuring,
        functions=tuple(functions),
        shapes=tuple({name: tuple(s) for name, s in each.items()} for each in shapes) or ({},),
        variants=tuple(variants),
        labels=texts,
        numbers=numbers,
    )
    found = list(find_sources(sources, wanted))
    saved = [(path, own) for path, own in found if is_readable(path) and _is_saved(path)]
    models = [one for one in found if one not in saved]
    _check(models, graphs, wanted)
    store = ResultStore(Path(folder))
    with store.open_writer() as writer:
        sweep = _Sweep(writer=writer, progress=progress or (lambda _: None))
        known = {key: failed for key, failed in store.keys().items() if not (failed and retry)}
        sweep.import_profiles(saved, known)
        measures = any(own.measuring is not None for own in (wanted, *(own for _, own in models)))
        runner = (
            LocalRunner(workers, measures=measures)
            if workers is None or isinstance(workers, int)
            else workers
        )
        expander = Expander(known=known, own=use_own()[0], place=runner.place, cores=runner.cores)
        sweep.run(runner, expander, models, graphs, wanted)
        sweep.relabel(store, expander)
    write_tables(store)
    return sweep.summary(store.folder, expander)


def _is_saved(path: Path) -> bool:
    from coremlscope.api.imported import is_saved

    return is_saved(path)


def _split(labels: Mapping[str, str | float]) -> tuple[dict[str, str], dict[str, float]]:
    """Returns the labels that are texts, and those that are numbers."""
    texts = {name: value for name, value in labels.items() if isinstance(value, str)}
    return texts, {name: float(value) for name, value in labels.items() if not isinstance(value, str)}


def _check(models: Sequence[tuple[Path, Wanted]], graphs: Iterable[Any], wanted: Wanted) -> None:
    """Checks in advance that a result is requested, and that all devices are known."""
    for _, own in [*models, *([(Path(), wanted)] if graphs else [])]:
        if not own.devices and own.measuring is None:
            raise UsageError(
                "nothing is asked for", "name devices to estimate for, as in --device m1, or add --measure"
            )
        for name in own.devices:
            find_device(name, own.os)


class _Runner(Protocol):
    """Runs jobs, on this machine or on a cluster."""

    @property
    def place(self) -> str: ...

    @property
    def cores(self) -> int: ...

    def run(
        self, jobs: Iterable[SweepJob], done: Callable[[SweepJob, Rows | CoremlscopeError], None]
    ) -> None: ...


@dataclass(slots=True, kw_only=True)
class _Sweep:
    """A sweep that is running."""

    writer: Writer
    progress: Shown
    started: float = field(default_factory=time.monotonic)
    made: int = 0
    failed: int = 0
    imported: int = 0
    total: int | None = None
    interrupted: bool = False
    failures: collections.Counter[tuple[str, str, str, int]] = field(default_factory=collections.Counter)

    def import_profiles(self, saved: Sequence[tuple[Path, Wanted]], known: Mapping[str, bool]) -> None:
        """Adds the rows of saved profiles that are not there yet."""
        for path, own in saved:
            from coremlscope.api.imported import read_any

            for profile in read_any(path):
                rows = [
                    msgspec.structs.replace(row, labels=own.labels, numbers=own.numbers)
                    for row in imported_rows(profile, path)
                    if row.key not in known
                ]
                if rows:
                    self.writer.add(rows)
                self.imported += len(rows)

    def run(
        self,
        runner: _Runner,
        expander: Expander,
        models: Sequence[tuple[Path, Wanted]],
        graphs: Iterable[tuple[str, Graph]],
        wanted: Wanted,
    ) -> None:
        """Makes all results that do not exist yet."""
        in_files: list[SweepJob] = []
        # Results are made to be shared, and do not say where a person keeps models.
        names = short_names(path_text(path) for path, _ in models)
        for path, own, name in _alike(models, names):
            try:
                in_files += expander.jobs_of_path(path, own, name)
            except UsageError:
                raise
            except Exception as error:  # one model must not stop the others
                known = known_error(error, name)
                message = known.message.replace(path_text(path), name)
                self.failures[name, message, known.hint, known.exit_code] += 1
        count = len(graphs) if isinstance(graphs, collections.abc.Sized) else None
        later = _of_graphs(expander, graphs, wanted)
        if not graphs:
            self.total = expander.wanted - expander.found - expander.failed
        elif count is not None:
            each = len(wanted.devices) * len(wanted.compute_units) + (wanted.measuring is not None)
            self.total = sum(len(job.cases) for job in in_files) + count * each
        began = time.monotonic()

        def done(job: SweepJob, answer: Rows | CoremlscopeError) -> None:
            rows = _failed(job, answer) if isinstance(answer, CoremlscopeError) else answer
            self.writer.add(rows)
            self._count(rows)
            self.progress(self._state(expander, time.monotonic() - began))

        self.progress(self._state(expander, 0.0))
        prepare_arrow()
        try:
            runner.run(chain(in_files, later), done)
        except KeyboardInterrupt:
            self.interrupted = True

    def relabel(self, store: ResultStore, expander: Expander) -> None:
        """Replaces the labels of results that exist already, where others are wanted now."""
        wanted = expander.labelled
        for key, row in store.rows(wanted.keys()).items() if wanted else ():
            labels, numbers = dict(wanted[key][0]), dict(wanted[key][1])
            if (row["labels"], row["numbers"]) != (labels, numbers):
                self.writer.add([{**row, "labels": labels, "numbers": numbers, "labelled_at": timestamp()}])

    def _count(self, rows: Rows) -> None:
        for row in rows:
            if row["failure"]:
                self.failed += 1
                self.failures[row["model"], row["failure"], row["hint"], row["exit_code"]] += 1
            else:
                self.made += 1

    def _state(self, expander: Expander, elapsed_s: float) -> SweepProgress:
        done = self.made + self.failed
        left = None if self.total is None else max(0, self.total - done)
        return SweepProgress(
            done=done,
            total=self.total,
            failed=self.failed,
            known=expander.found + expander.failed,
            left_s=None if left is None or not done else elapsed_s / done * left,
        )

    def summary(self, folder: Path, expander: Expander) -> SweepSummary:
        """Returns what was done."""
        return SweepSummary(
            folder=str(folder),
            made=self.made,
            known=expander.found,
            known_failures=expander.failed,
            imported=self.imported,
            failures=tuple(
                FailedModel(model=model, reason=reason, hint=hint, exit_code=code, results=count)
                for (model, reason, hint, code), count in self.failures.items()
            ),
            seconds=time.monotonic() - self.started,
            interrupted=self.interrupted,
        )


def _alike(
    models: Sequence[tuple[Path, Wanted]], names: Mapping[str, str]
) -> Iterator[tuple[Path, Wanted, str]]:
    """Yields files of equal content once, with the names of all: `a.mlmodel = b.mlmodel`."""
    groups: dict[tuple[str, str], tuple[Path, Wanted, list[str]]] = {}
    for path, own in models:
        name = names[path_text(path)]
        try:
            content = content_of_path(path)
        except Exception:  # what reads it says why
            content = f"unreadable: {name}"
        groups.setdefault((content, repr(own)), (path, own, []))[2].append(name)
    for path, own, alike in groups.values():
        yield path, own, " = ".join(alike)


def _failed(job: SweepJob, error: CoremlscopeError) -> Rows:
    return [plain(row) for row in failed_rows(job, error)]


def _of_graphs(expander: Expander, graphs: Iterable[tuple[str, Graph]], wanted: Wanted) -> Iterator[SweepJob]:
    for name, graph in graphs:
        yield from expander.jobs_of_graph(name, graph, wanted)
