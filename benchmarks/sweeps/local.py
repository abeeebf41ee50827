"""Sweeps on this machine: how well workers share the work, and how many architectures a core estimates."""

from __future__ import annotations

import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from coremlscope.devices.targets import Targets
from coremlscope.model.ir import Model
from coremlscope.results.sweep import SweepProgress
from coremlscope.studies.sweep.ray_cluster import RayRunner
from coremlscope.studies.sweep.run import run_sweep
from examples.search_space.search import build, sample

__all__ = ["report_architectures", "report_corpus", "report_ray", "report_workers"]


@dataclass(frozen=True, slots=True)
class _Run:
    """Duration of a sweep in seconds: wall time, and processor time of itself and of its children."""

    made: int
    wall_s: float
    own_s: float
    children_s: float


def report_workers(count: int, most: int) -> str:
    """Compares sweeps with 1 to `most` local workers over the same architectures, built before."""
    graphs = list(_architectures(count))
    return _efficiency(count, [_timed(graphs, workers=number + 1) for number in range(most)])


def report_ray(count: int, most: int) -> str:
    """Compares sweeps on Ray clusters of this machine with 1 to `most` workers, as `report_workers` does.

    A cluster is started before the clock; its workers start and import the package within the measured time.
    """
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    graphs, runs = list(_architectures(count)), []
    for number in range(1, most + 1):
        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": number, "include_dashboard": False}
        )
        try:
            runs.append(_timed(graphs, ray=cluster.address))
        finally:
            cluster.shutdown()
    return _efficiency(count, runs)


def _efficiency(count: int, runs: Sequence[_Run]) -> str:
    """Describes runs with 1, 2, … workers; efficiency is the throughput by that of as many lone workers.

    The graphs are built before the clock starts, since a user's own code is no part of the sweep.
    """
    lines = [f"{count} architectures of the example, built before"]
    for workers, run in enumerate(runs, start=1):
        efficiency = runs[0].wall_s / run.wall_s / workers
        lines.append(
            f"{workers} workers: {run.wall_s:.1f} s of wall time, children {run.children_s:.1f} s and the"
            f" sweep {run.own_s:.1f} s of processors; efficiency {efficiency:.2f}"
        )
    return "\n".join(lines)


def report_architectures(count: int) -> str:
    """Estimates architectures that are built on the way, and looks at throughput and memory."""
    peaks: list[tuple[int, int]] = []

    def show(state: SweepProgress) -> None:
        if state.done % max(1, count // 10) == 0:
            peaks.append((state.done, _peak_mb(resource.RUSAGE_SELF)))

    found = _timed(_architectures(count), progress=show)
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
            found = run_sweep(folder, folder=results, devices=Targets(devices, compute_units="every"))
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


def _timed(
    graphs: Iterable[tuple[str, Model]],
    *,
    workers: int | None = None,
    ray: str | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
) -> _Run:
    with tempfile.TemporaryDirectory(prefix="coremlscope-") as folder:
        began, own, children = time.monotonic(), time.process_time(), _processor_s()
        found = run_sweep(
            graphs=graphs,
            devices=["m1"],
            folder=folder,
            workers=RayRunner(ray) if ray else workers,
            progress=progress,
        )
        wall = time.monotonic() - began
        return _Run(found.made, wall, time.process_time() - own, _processor_s() - children)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peak_mb(whose: int) -> int:
    return resource.getrusage(whose).ru_maxrss >> 10
