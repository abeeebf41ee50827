"""A sweep whose processes are killed at random, also the one that leads it: nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from coremlscope.studies.sweep.store import ResultStore

pytestmark = pytest.mark.long

_JOBS = 1000
_DRIVER = """
import sys
from coremlscope import run_sweep
from coremlscope.model.ir import DType
from coremlscope.formats.expressions.building import LayerBuilder

def graphs(count):
    for index in range(count):
        net = LayerBuilder(DType.FP16)
        x = net.input("x", (1, 8 + index))
        yield f"net {index}", net.model(net.op("relu", x=x), "")

if __name__ == "__main__":
    summary = run_sweep(
        graphs=graphs(int(sys.argv[1])), devices=["m1"], folder=sys.argv[2], workers=2, retry=True
    )
    sys.exit(bool(summary.failures))
"""


def children_of(pid: int) -> list[int]:
    """Returns the processes that a process started."""
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in listed for child in path.read_text().split()]


def journalled(results: Path) -> int:
    """Returns the number of jobs in journals."""
    return sum(path.read_bytes().count(b"\n") for path in results.glob("*.jsonl"))


def lead(results: Path, choose: random.Random) -> tuple[int, int]:
    """Runs a driver and kills its workers, and perhaps itself, at random moments of its work.

    Returns:
        Its exit code, and the number of workers that were killed.
    """
    driver = subprocess.Popen([sys.executable, "-c", _DRIVER, str(_JOBS), str(results)])
    killed = 0
    while True:
        target = journalled(results) + choose.randint(1, 60)
        while driver.poll() is None and journalled(results) < target:
            time.sleep(0.02)
        if driver.poll() is not None:
            return driver.returncode, killed
        if choose.random() < 0.25:
            driver.kill()
            return driver.wait(), killed
        workers = children_of(driver.pid)
        if workers:
            os.kill(choose.choice(workers), signal.SIGKILL)
            killed += 1


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists children")
def test_killed_workers_and_drivers_lose_and_double_nothing(tmp_path: Path) -> None:
    choose, results = random.Random(0), tmp_path / "results"
    store = ResultStore(results)
    killed, drivers, code = 0, 0, 1
    finished: set[str] = set()
    while code != 0:
        drivers += 1
        assert drivers < 100
        code, more = lead(results, choose)
        killed += more
        known = {key for key, failed in store.keys().items() if not failed}
        assert finished <= known, "a result was lost"
        finished = known
        print(f"driver {drivers} ended with {code}: {len(known)} results, {killed} workers killed")
    rows = store.table().to_pylist()
    assert len(rows) == len({row["key"] for row in rows}) == len({row["model"] for row in rows}) == _JOBS
    assert not any(row["failure"] for row in rows)
    written = [failure for part in store.parts() for failure in pq.read_table(part)["failure"].to_pylist()]
    assert written.count("") == _JOBS, "a result was made twice"
    assert not list(results.glob("*.jsonl"))
    assert killed > 3
    assert drivers > 2
