"""Works on one job: reads the model, makes its variant, and estimates or measures it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec.structs

from coremlscope import api
from coremlscope.api.assemble import assemble
from coremlscope.base.errors import (
    CoremlscopeError,
    EngineError,
    UnsupportedModelError,
    UsageError,
    known_error,
)
from coremlscope.base.folders import cache_folder
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.writing import lock_file, open_draft
from coremlscope.describe.model import list_operations
from coremlscope.devices import find_device
from coremlscope.measure.effort import Effort
from coremlscope.model.ir import Model
from coremlscope.model.subject import Subject
from coremlscope.planning.forecast.planner import forecast
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.planning.rewrites.transforms import parse_transform, why_not
from coremlscope.results.profile import Profile
from coremlscope.runtime.execution.binding import sharing_bindings
from coremlscope.runtime.execution.sequence_lengths import choose_lengths
from coremlscope.studies.sweep.jobs import (
    SESSION,
    PickledModel,
    SweepJob,
    SweptModel,
    WantedResult,
    failed_rows,
    split_cases,
    timestamp,
)
from coremlscope.studies.sweep.profiles import rows_of
from coremlscope.studies.sweep.rows import Row

#: The file that measuring jobs lock, in the user's cache, and seconds between two tries.
_LOCK, _PAUSE_S = "measuring.lock", 0.1


def run_job(job: SweepJob) -> tuple[Row, ...]:
    """Returns a row for each case of a job; a failure becomes the rows' failure."""
    began = time.monotonic()
    try:
        with _opened(job.subject) as source:
            if job.measuring is None:
                found = _estimate(job, source)
            else:
                with _alone_on_this_machine():
                    began = time.monotonic()
                    found = _measure(job, source)
    except Exception as error:  # one model must not stop the others
        found = failed_rows(job, known_error(error, job.subject.name))
    work_s, made_at = time.monotonic() - began, timestamp()
    return tuple(msgspec.structs.replace(row, work_s=work_s, made_at=made_at) for row in found)


@contextmanager
def _opened(subject: SweptModel) -> Iterator[api.Source]:
    """Yields the model, or its variant, which exists until the context ends."""
    if not subject.variant or subject.variant.startswith(SESSION):
        yield subject.source.read() if isinstance(subject.source, PickledModel) else subject.source
        return
    if not isinstance(subject.source, Path):
        raise UsageError(
            "variants are made of models in files, and this is a graph in memory",
            "save it, and give its path",
        )
    with scratch_folder() as folder:
        yield _make_variant(subject.source, subject.variant, Path(folder))


@contextmanager
def _alone_on_this_machine() -> Iterator[None]:
    """Waits until no other job of this user measures here; others wait until the context ends."""
    place = cache_folder() / _LOCK
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = open_draft(place)
    except OSError:  # without a folder for the lock, measurements cannot wait for each other
        yield
        return
    with lock:
        while lock_file(lock) is False:
            time.sleep(_PAUSE_S)
        yield


def _make_variant(source: Path, name: str, folder: Path) -> Path:
    """Applies transforms to a model, and returns the file of the result.

    Raises:
        CoremlscopeError: The transform does not suit the model, or coremltools failed.
    """
    from coremlscope.measure.coreml.files import readable_by_core_ml
    from coremlscope.studies.variants.coremltools_steps import require_coremltools, transform_file
    from coremlscope.studies.variants.study import with_own_manifest
    from coremlscope.studies.variants.worker import first_line

    model, transform = api.read(source), parse_transform(name)
    reason = why_not(transform, model)
    if reason:
        raise UnsupportedModelError(f"{name} cannot be applied: {reason}", "choose another transform")
    if transform.has("w8a8"):
        raise UnsupportedModelError(f"{name} needs real inputs", "make it with `coremlscope what-if --apply`")
    is_network = model.content.is_network
    target = folder / ("variant.mlmodel" if is_network else "variant.mlpackage")
    path = with_own_manifest(readable_by_core_ml(source, folder), folder)
    try:
        transform_file(path, transform, target, shapes={}, samples=[], folder=folder)
    except CoremlscopeError:
        raise
    except Exception as error:  # coremltools and its libraries raise any exception
        require_coremltools()
        raise EngineError(f"coremltools: {first_line(error)}", "choose another transform") from error
    return target if target.exists() else path  # no weight was compressed


def _estimate(job: SweepJob, source: api.Source) -> tuple[Row, ...]:
    if job.subject.variant.startswith(SESSION) and isinstance(source, Path):
        from coremlscope.studies.sweep.sessions import estimate_sessions

        return tuple(estimate_sessions(job, source))
    model, function = api.read(source), job.subject.function or None
    with sharing_bindings():
        return _planned(job, model, function)


def _planned(job: SweepJob, model: Model, function: str | None) -> tuple[Row, ...]:
    subject = job.subject
    shapes = choose_lengths(model, function, subject.shapes)
    summary = describe_model(model, shapes, function=function)
    ops = list_operations(model, shapes, functions=[summary.main.name], with_arguments=False)
    rows: list[Row] = []
    for settings, names in split_cases(job.cases).items():
        devices = [find_device(name, os) for name, os in names]
        found = forecast(
            model,
            ops,
            devices,
            settings,
            function=function,
            shapes=shapes,
            advised=(),
            with_faster=False,
            own=job.own,
        )
        profile = assemble(summary, ops, forecast=found)
        cases = [case for name in names for case in job.cases if (case.device, case.os) == name]
        rows += _completed(job, profile, cases)
    return tuple(rows)


def _measure(job: SweepJob, source: api.Source) -> tuple[Row, ...]:
    subject, measuring = job.subject, job.measuring
    assert measuring is not None
    rows: list[Row] = []
    model = Subject(
        source,
        subject.function or None,
        subject.shapes,
        seed=measuring.seed,
        random_weights=measuring.random_weights,
    )
    effort = Effort(
        compile_iterations=1,
        load_iterations=3,
        threads=measuring.threads,
        isolate=isinstance(source, Path),
        timeout_s=measuring.timeout_s,
        memory_bytes=measuring.memory_bytes,
    )
    for case in job.cases:
        units, iterations = case.compute_units, measuring.iterations
        try:
            profile = api.profile(model, compute_units=units, iterations=iterations, effort=effort)
        except EngineError as error:  # another setting may work
            rows += failed_rows(msgspec.structs.replace(job, cases=(case,)), error)
            continue
        rows += _completed(job, profile, [case])
    return tuple(rows)


def _completed(job: SweepJob, profile: Profile, cases: Sequence[WantedResult]) -> Iterator[Row]:
    """Yields the rows of a profile, in the order of the cases, with what identifies them."""
    made = list(rows_of(profile))
    if len(made) < len(cases):
        text = next((finding.text for finding in profile.findings), "there is no estimate")
        yield from failed_rows(
            msgspec.structs.replace(job, cases=tuple(cases)), CoremlscopeError(text.rstrip("."), "")
        )
        return
    for case, row in zip(cases, made, strict=True):
        known = job.row(case)
        yield msgspec.structs.replace(row, **{name: getattr(known, name) for name in _IDENTITY})


#: The columns that a job knows better than the profile that it makes.
_IDENTITY = ("key", "model", "content", "function", "shapes", "variant", "labels", "numbers")
