"""Sweeps on a simulated Ray cluster whose workers, nodes and driver are killed at random.

Every node has a raylet, two agents and a worker on this machine, some 180 MB, so the memory limits their
number. The jobs are estimates of graphs of one operation, each another one. A driver in a process of its own
runs the sweep; one that was killed is started again and goes on. The wall time of a job is that of the sweep
by the number of jobs: it contains the work, for which all nodes share the processors of the machine, and the
starts of drivers, nodes and workers that replace killed ones.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.sweeps.graphs import small_graphs
from coremlscope.studies.sweep.ray_cluster import RayRunner
from coremlscope.studies.sweep.run import run_sweep
from coremlscope.studies.sweep.store import ResultStore, count_rows

__all__ = ["lead", "report"]

_STORE_BYTES = 80 << 20
#: Seconds for the nodes to be there.
_START_S = 300


def lead(address: str, folder: str, jobs: int) -> None:
    """Runs the sweep; this is the driver, in a process of its own."""
    run_sweep(
        graphs=small_graphs(jobs), devices=["m1"], folder=folder, workers=RayRunner(address), retry=True
    )


@dataclass(slots=True)
class _Chaos:
    """Kills what belongs to a cluster.

    Attributes:
        cluster: The cluster.
        nodes: Its nodes besides the head, those that were killed left out.
        folder: The results.
        jobs: Number of jobs.
        choose: What decides.
        killed: Number of those killed, by kind.
    """

    cluster: Any
    nodes: list[Any]
    folder: Path
    jobs: int
    choose: random.Random = field(default_factory=lambda: random.Random(0))
    killed: Counter[str] = field(default_factory=Counter)

    def kill(self, kind: str, driver: subprocess.Popen[bytes]) -> None:
        """Kills something of a kind; a node is replaced by another one."""
        if kind == "driver":
            driver.kill()
        elif kind == "worker":
            workers = _workers()
            if not workers:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.choose.choice(workers), 9)
        else:
            node = self.nodes.pop(self.choose.randrange(len(self.nodes)))
            self.cluster.remove_node(node, allow_graceful=False)
            # Where other programs keep the machine busy, Ray may give up; the cluster is then smaller.
            with contextlib.suppress(Exception):
                self.nodes.append(_add_node(self.cluster))
        self.killed[kind] += 1


def report(jobs: int, nodes: int, kills: tuple[int, int, int]) -> str:
    """Runs a sweep on a simulated cluster.

    Args:
        jobs: Number of jobs.
        nodes: Number of nodes besides the head, which works on no jobs.
        kills: How many workers, nodes and drivers are killed, at random moments.

    Returns:
        What was found, as text.
    """
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": str(_START_S)}
    from ray.cluster_utils import Cluster

    began = time.monotonic()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE_BYTES},
    )
    try:
        added = [_add_node(cluster) for _ in range(nodes)]
        cluster.wait_for_nodes(timeout=_START_S)
        started_s = time.monotonic() - began
        with tempfile.TemporaryDirectory(prefix="coremlscope-") as folder:
            chaos = _Chaos(cluster, added, Path(folder), jobs)
            watch = _Watch()
            seconds, drivers = _sweep(chaos, kills)
            watch.stop()
            return _text(chaos, nodes, started_s, seconds, drivers, watch)
    finally:
        cluster.shutdown()


def _sweep(chaos: _Chaos, kills: tuple[int, int, int]) -> tuple[float, int]:
    """Returns the seconds of all drivers, and their number."""
    kinds = [
        kind for kind, count in zip(("worker", "node", "driver"), kills, strict=True) for _ in range(count)
    ]
    chaos.choose.shuffle(kinds)
    moments = sorted(chaos.choose.randrange(chaos.jobs) for _ in kinds)
    planned = list(zip(moments, kinds, strict=True))
    code = (
        f"from benchmarks.sweeps.cluster import lead; lead({chaos.cluster.address!r}, {str(chaos.folder)!r}, "
    )
    command = [sys.executable, "-c", f"{code}{chaos.jobs})"]
    began, drivers, status = time.monotonic(), 0, 1
    while status != 0:
        drivers += 1
        driver = subprocess.Popen(command)
        while driver.poll() is None:
            while planned and planned[0][0] <= _finished(chaos.folder):
                chaos.kill(planned.pop(0)[1], driver)
            time.sleep(0.5)
        status = driver.returncode
        if status not in (0, -9):
            raise RuntimeError(f"the driver ended with {status}")
    return time.monotonic() - began, drivers


def _finished(folder: Path) -> int:
    """Returns the number of results: rows of files and lines of journals."""
    import pyarrow.parquet

    count = 0
    for path in folder.glob("results-*"):
        with contextlib.suppress(OSError):
            if path.suffix == ".parquet":
                count += pyarrow.parquet.read_metadata(path).num_rows
            elif not path.with_suffix(".parquet").exists():
                count += path.read_bytes().count(b"\n")
    return count


def _text(chaos: _Chaos, nodes: int, started_s: float, seconds: float, drivers: int, watch: _Watch) -> str:
    store = ResultStore(chaos.folder)
    rows = store.table().select(["key", "model", "failure"]).to_pylist()
    found = [row for row in rows if not row["failure"]]
    keys, models = ({row[name] for row in found} for name in ("key", "model"))
    written = sum(map(count_rows, store.parts()))
    cores = os.cpu_count() or 1
    lines = [
        f"{chaos.jobs} jobs, {nodes} nodes on {cores} processors, up after {started_s:.0f} s,"
        f" {watch.most_bytes >> 20} MB at most",
        f"killed: {chaos.killed['worker']} workers, {chaos.killed['node']} nodes, {chaos.killed['driver']}"
        f" drivers; {drivers} drivers ran, {len(chaos.nodes)} nodes were left",
        f"results: {len(found)} rows, {len(keys)} keys, {len(models)} models;"
        f" failures: {len(rows) - len(found)}; rows in files: {written}",
        f"{seconds:.0f} s: {seconds / chaos.jobs * 1e3:.1f} ms for each job, and"
        f" {watch.processor_s / chaos.jobs * 1e3:.1f} ms of processors for all processes",
    ]
    is_exact = len(rows) == len(found) == len(keys) == len(models) == written == chaos.jobs
    return "\n".join([*lines, "nothing was lost or doubled" if is_exact else "MISMATCH: see the counts"])


def _add_node(cluster: Any) -> Any:
    return cluster.add_node(wait=False, num_cpus=1, object_store_memory=_STORE_BYTES)


def _workers() -> list[int]:
    """Returns the processes of Ray that work on jobs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().startswith(b"ray::run_batch"):
                found.append(int(path.parent.name))
    return found


class _Watch:
    """Memory and processor time of all processes below this one, looked at now and then."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._seconds: dict[int, float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def processor_s(self) -> float:
        """Processor time so far; of processes that ended, as much as was seen."""
        return sum(self._seconds.values())

    def stop(self) -> None:
        """Looks a last time."""
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(5.0)
            found = _below(os.getpid())
            self.most_bytes = max(self.most_bytes, sum(map(_proportional, found)))
            self._seconds |= {pid: seconds for pid in found if (seconds := _processor_s(pid))}


def _processor_s(pid: int) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _below(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        for path in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, path.read_text().split())
    return found


def _proportional(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0
