"""Sweeps on this machine: how well workers share the work, and how many architectures a core estimates."""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from coremlscope.ir import Model
from coremlscope.results.sweep import SweepProgress
from coremlscope.sweep.run import run_sweep
from examples.search_space.search import build, sample

__all__ = ["report_architectures", "report_corpus", "report_workers"]


@dataclass(frozen=True, slots=True)
class _Run:
    """What a sweep took in seconds: wall time, and processor time of itself and of its children."""

    made: int
    wall_s: float
    own_s: float
    children_s: float


def report_workers(count: int, most: int) -> str:
    """Compares sweeps with 1 to `most` workers over the same architectures.

    Efficiency is the throughput with n workers by n times that of one. The graphs are built before the
    clock starts, since a user's own code is no part of the sweep.
    """
    graphs = list(_architectures(count))
    lines, alone = [], 0.0
    for workers in range(1, most + 1):
        found = _timed(graphs, workers)
        alone = alone or found.wall_s
        lines.append(
            f"{workers} workers: {found.wall_s:.1f} s of wall time, children {found.children_s:.1f} s and the"
            f" sweep {found.own_s:.1f} s of processors; efficiency {alone / found.wall_s / workers:.2f}"
        )
    return "\n".join([f"{count} architectures of the example, built before", *lines])


def report_architectures(count: int) -> str:
    """Estimates architectures that are built on the way, and looks at throughput and memory."""
    peaks: list[tuple[int, int]] = []

    def show(state: SweepProgress) -> None:
        if state.done % max(1, count // 10) == 0:
            peaks.append((state.done, _peak_mb(resource.RUSAGE_SELF)))

    found = _timed(_architectures(count), None, show)
    total = found.own_s + found.children_s
    listed = ", ".join(f"{peak} MB after {done}" for done, peak in dict(peaks).items())
    lines = [
        f"{found.made} architectures in {found.wall_s:.0f} s of wall time;"
        f" {found.made / total:.1f} a second and core",
        f"each takes {found.children_s / found.made * 1e3:.1f} ms of a core to plan and estimate, and"
        f" {found.own_s / found.made * 1e3:.1f} ms to build and hand over",
        f"largest memory of a child {_peak_mb(resource.RUSAGE_CHILDREN)} MB, of the sweep {listed}",
    ]
    return "\n".join(lines)


def report_corpus(folder: str) -> str:
    """Sweeps all models of a folder for six devices and four settings, and again when everything exists."""
    devices = ["m1", "m4", "iphone-13", "iphone-15-pro", "iphone-16", "m2-ultra"]
    lines = []
    with tempfile.TemporaryDirectory(prefix="coremlscope-") as results:
        for name in ("cold", "again"):
            began = time.monotonic()
            found = run_sweep(folder, folder=results, devices=devices, compute_units="every")
            failed = found.failed + found.known_failures
            seconds = time.monotonic() - began
            lines.append(f"{name}: {found.made} made, {found.known} known, {failed} failed, {seconds:.1f} s")
    return "\n".join(lines)


def _architectures(count: int) -> Iterator[tuple[str, Model]]:
    """Yields different architectures of the example's space."""
    choose, seen = random.Random(0), set()
    while len(seen) < count:
        chosen = sample(choose)
        if chosen not in seen:
            seen.add(chosen)
            yield chosen.name, build(chosen)


def _timed(graphs: object, workers: int | None, progress: object = None) -> _Run:
    with tempfile.TemporaryDirectory(prefix="coremlscope-") as folder:
        began, own, children = time.monotonic(), time.process_time(), _processor_s()
        found = run_sweep(
            graphs=graphs,  # type: ignore[arg-type]
            devices=["m1"],
            folder=folder,
            workers=workers,
            progress=progress,  # type: ignore[arg-type]
        )
        wall = time.monotonic() - began
        return _Run(found.made, wall, time.process_time() - own, _processor_s() - children)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peak_mb(whose: int) -> int:
    return resource.getrusage(whose).ru_maxrss >> 10
