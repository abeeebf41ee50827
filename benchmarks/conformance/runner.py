"""Runs test files in separate processes and collects the plugin's records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.conformance import plugin_names as names

#: The tested folders, relative to coremltools.
FOLDERS = (
    "converters/mil/mil/ops/tests",
    "converters/mil/mil/passes/tests",
    "converters/mil/mil/tests",
    "converters/mil/backend",
    "converters/mil/frontend/milproto",
    "converters/mil/frontend/torch/test",
    "test/ml_program",
    "test/optimize/coreml",
    "test/api",
    "test/blob",
    "test/modelpackage",
    "test/neural_network",
    "test/pipeline",
    "test/sklearn_tests",
    "test/xgboost_tests",
)
#: Files with many tests, and the number of parts that they are divided into when all tests run.
_PARTS = {"test_torch_ops.py": 24, "test_passes.py": 4, "test_post_training_quantization.py": 6}
#: A process has at most so many of them, however small the sample: collecting them takes it seconds.
_MOST_PARTS = 12
#: The approximate source size up to which files share a process, in bytes: a process starts in seconds.
_BUNDLE_BYTES = 200_000
#: pytest's exit codes after a complete run: all tests passed, some failed, none were selected.
_COMPLETE = (0, 1, 5)

Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which tests run, and where the results are written.

    Attributes:
        sample: `k/n` selects the tests whose id has a crc32 of k modulo n.
        one_per: `class` or `function` selects one test of each test class or function; empty selects all.
        compiled: True loads every ML Program through a compiled model that this package writes and reads.
        timeout_s: The limit of a test in seconds.
        keyword: pytest's `-k`; empty selects all tests.
        output: The folder of the results.
    """

    sample: str
    one_per: str
    compiled: bool = False
    timeout_s: int
    keyword: str
    output: Path


@dataclass(frozen=True, slots=True)
class Job:
    """The tests of one process: several files, or a part of one file.

    Attributes:
        files: Paths relative to coremltools.
        part: The index of the part.
        parts: The number of parts that the tests are divided into.
    """

    files: tuple[str, ...]
    part: int = 0
    parts: int = 1

    def __str__(self) -> str:
        name = self.files[0] if len(self.files) == 1 else f"{self.files[0]} … {self.files[-1]}"
        return name if self.parts == 1 else f"{name} {self.part + 1}/{self.parts}"


def suite() -> Path:
    """The folder of the installed coremltools."""
    spec = find_spec("coremltools")
    if spec is None or spec.origin is None:
        raise SystemExit("coremltools is not installed; `make conformance` installs it")
    return Path(spec.origin).parent


def plan_jobs(paths: Sequence[str], plan: Plan, workers: int) -> list[Job]:
    """Divides the test files below `paths` into jobs: small files share one, long files become several."""
    sizes = _test_files(paths)
    kept = 1 if plan.one_per else int(plan.sample.split("/")[1])
    limit = min(_BUNDLE_BYTES * kept, sum(sizes.values()) // workers)
    jobs: list[Job] = []
    bundle: list[str] = []
    for file, size in sizes.items():
        parts = 1 if plan.one_per else -(-_PARTS.get(Path(file).name, 1) // min(kept, _MOST_PARTS))
        if parts > 1:
            jobs += [Job((file,), part, parts) for part in range(parts)]
            continue
        if bundle and sum(sizes[f] for f in bundle) + size > limit:
            jobs.append(Job(tuple(bundle)))
            bundle = []
        bundle.append(file)
    return [*jobs, Job(tuple(bundle))] if bundle else jobs


def _test_files(paths: Sequence[str]) -> dict[str, int]:
    """The test files below `paths`, with their sizes in bytes."""
    root = suite()
    found = {}
    for path in paths:
        target = root / path
        if not target.exists():
            raise SystemExit(f"coremltools has no file or folder {path}")
        for file in sorted(target.rglob("test_*.py")) if target.is_dir() else [target]:
            found[file.relative_to(root).as_posix()] = file.stat().st_size
    return found


def run_jobs(jobs: Sequence[Job], plan: Plan, workers: int) -> list[Result]:
    """Runs all jobs, `workers` at a time; returns the results of all tests in the order of the jobs."""
    plan.output.mkdir(parents=True, exist_ok=True)
    finished = 0
    lock = threading.Lock()

    def run(numbered: tuple[int, Job]) -> list[Result]:
        nonlocal finished
        number, job = numbered
        results = _run_job(job, plan, plan.output / f"job-{number}.jsonl")
        with lock:
            finished += 1
            failed = sum(r["outcome"] == "failed" for r in results)
            text = f"[{finished}/{len(jobs)}] {job}: {len(results)} tests, {failed} failed"
            print(text, file=sys.stderr, flush=True)
        return results

    with ThreadPoolExecutor(workers) as pool:
        return [result for results in pool.map(run, enumerate(jobs)) for result in results]


def _run_job(job: Job, plan: Plan, log: Path) -> list[Result]:
    """Runs a job until every test has a result: after a crash or a hang, the remaining tests run again."""
    for old in (log, log.with_suffix(".log")):
        old.unlink(missing_ok=True)
    done = log.with_suffix(".done")
    while True:
        _, started = _read(log)
        done.write_text("\n".join(started), encoding="utf-8")
        code = _pytest(job, plan, log, done)
        ended, started = _read(log)
        lost = [test for test in started if test not in ended]
        if lost:
            _append_failure(log, lost[-1], _lost_message(code, plan.timeout_s))
            continue
        done.unlink()
        if code not in _COMPLETE:
            _append_failure(log, job.files[0], f"pytest ended with code {code}; see {log.stem}.log")
        return list(_read(log)[0].values())


def _lost_message(code: int, timeout_s: int) -> str:
    if code == -signal.SIGKILL:
        return f"the test took longer than {timeout_s} s, or the system killed the process for its memory"
    return f"the process ended with code {code} during this test"


def _append_failure(log: Path, test: str, message: str) -> None:
    record = {"id": test, "outcome": "failed", "scope": ["load"], "kinds": [], "message": message}
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def _read(log: Path) -> tuple[dict[str, Result], list[str]]:
    """Reads the results by test id, and the ids of all started tests."""
    ended: dict[str, Result] = {}
    started: list[str] = []
    if log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if "start" in record:
                started.append(record["id"])
            elif record["id"] not in ended or record["outcome"] == "failed":
                ended[record["id"]] = record
    return ended, started


def _pytest(job: Job, plan: Plan, log: Path, done: Path) -> int:
    root, project = suite(), Path(__file__).parents[2]
    environment = {
        **os.environ,
        names.RESULTS: str(log.resolve()),
        names.DONE: str(done.resolve()),
        names.SAMPLE: plan.sample,
        names.PART: f"{job.part}/{job.parts}",
        names.ONE_PER: plan.one_per,
        names.COMPILED: "1" if plan.compiled else "",
        "COREMLSCOPE_CACHE": str(log.resolve().with_name("cache")),
        "PYTHONPATH": os.pathsep.join([str(project), str(project / "src")]),
        # Some parametrisations iterate over sets, and the ids must be the same in all processes.
        "PYTHONHASHSEED": "0",
    }
    options = [
        *("-q", "--no-header", "--tb=short", "-W", "ignore", "--continue-on-collection-errors"),
        *("-p", "benchmarks.conformance.plugin", "-p", "no:cacheprovider"),
        *("-c", os.devnull, f"--rootdir={root}"),
        *(("-k", plan.keyword) if plan.keyword else ()),
    ]
    files = [str(root / file) for file in job.files]
    command = [sys.executable, "-m", "pytest", *options, *files]
    output = log.with_suffix(".log")
    with output.open("ab") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment, cwd=plan.output)
        return _wait(process, log, plan.timeout_s)


def _wait(process: subprocess.Popen[bytes], log: Path, timeout_s: float) -> int:
    """Waits for a process and kills it if a test exceeds the limit, even in native code."""
    size, since = -1, time.monotonic()
    while True:
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            now = log.stat().st_size if log.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > timeout_s:
                process.kill()
                return process.wait()
