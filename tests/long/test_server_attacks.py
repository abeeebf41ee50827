"""Attacks on `coremlscope serve` over raw sockets: no hang, no traceback, bounded memory and threads."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.attacks import Attack, all_attacks, hostile_folder, perform, problems

_PATIENCE_S = 60.0
_AT_ONCE = 64
#: Memory above that of the idle server: requests answered at once with a page and a profile of 24 MB each.
_MOST_MEMORY = 400 << 20
#: Memory of a job: the libraries, and three times what the largest archive contains.
_MOST_JOB_MEMORY = 600 << 20
#: The loop, the queue, and the threads that Starlette answers requests in.
_MOST_THREADS = 4 + 40


@dataclass
class _Server:
    """A running `coremlscope serve`."""

    process: subprocess.Popen[str]
    url: str
    folder: Path
    temporary: Path
    most_memory: int = 0
    most_threads: int = 0
    most_files: int = 0
    most_job_memory: int = 0

    def look(self) -> None:
        """Records the memory of the server and of its job, the threads and the open files."""
        place = Path("/proc") / str(self.process.pid)
        status = _status(self.process.pid)
        self.most_memory = max(self.most_memory, status["VmRSS"] << 10)
        self.most_threads = max(self.most_threads, status["Threads"])
        self.most_files = max(self.most_files, len(list((place / "fd").iterdir())))
        for children in (place / "task").glob("*/children"):
            with contextlib.suppress(OSError, KeyError):  # a job or a thread that has ended
                for job in children.read_text().split():
                    self.most_job_memory = max(self.most_job_memory, _status(int(job))["VmHWM"] << 10)

    def state(self) -> Any:
        """Returns the state that the page shows."""
        with urllib.request.urlopen(f"{self.url}state", timeout=30) as answer:
            return json.load(answer)


def _status(process: int) -> dict[str, int]:
    """Returns the numbers of `/proc/PID/status`; sizes are in kB."""
    lines = (Path("/proc") / str(process) / "status").read_text().splitlines()
    words = (line.replace(":", " ").split() for line in lines)
    return {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdecimal()}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[_Server]:
    if not Path("/proc/self/status").exists():
        pytest.skip("memory and threads are read from /proc")
    folder = hostile_folder(tmp_path)
    (temporary := tmp_path / "temporary").mkdir()
    with (
        (tmp_path / "stderr").open("w+", encoding="utf-8") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "coremlscope", "serve", str(folder), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={"PATH": "", "HOME": str(tmp_path), "TMPDIR": str(temporary)},
        ) as process,
    ):
        assert process.stdout is not None
        yield _Server(process, process.stdout.readline().strip(), folder, temporary)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        assert not list(temporary.iterdir())
        errors.seek(0)
        assert [line for line in errors if "Ctrl-C" not in line and "ended" not in line] == []


def _perform_all(server: _Server, attacks: list[Attack]) -> list[tuple[Attack, list[str]]]:
    """Performs attacks while watching the server; returns those that it did not withstand."""
    has_ended = threading.Event()

    def watch() -> None:
        while not has_ended.wait(0.1):
            server.look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    with contextlib.ExitStack() as stack:
        stack.callback(watcher.join)
        stack.callback(has_ended.set)
        pool = stack.enter_context(ThreadPoolExecutor(_AT_ONCE))
        outcomes = pool.map(lambda attack: perform(attack, server.url, _PATIENCE_S), attacks)
        return [
            (attack, wrong)
            for attack, outcome in zip(attacks, outcomes, strict=True)
            if (wrong := problems(attack, outcome))
        ]


def _perform_uploads(server: _Server, attacks: list[Attack]) -> None:
    """Performs uploads one after the other, and waits until each is refused or its job has ended."""
    for attack in attacks:
        assert not problems(attack, perform(attack, server.url, _PATIENCE_S))
        deadline = time.monotonic() + 120
        while any(job["status"] in ("waiting", "running") for job in server.state()["jobs"]):
            assert time.monotonic() < deadline, attack.steps[:1]
            server.look()
            time.sleep(0.1)


def test_attacks(server: _Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.state()
    server.look()
    idle = server.most_memory
    before = {path.name for path in server.folder.iterdir()}
    attacks = all_attacks(server.url)
    files = [attack for attack in attacks if attack.kind == "upload"]
    begun = time.monotonic()
    assert not _perform_all(server, [attack for attack in attacks if attack.kind != "upload"])
    _perform_uploads(server, files)
    took = time.monotonic() - begun
    state = server.state()
    jobs = Counter(job["status"] for job in state["jobs"])
    with capsys.disabled():
        print(
            f"\n{len(attacks)} attacks in {took:.0f} s: memory {idle >> 20} MB, at most"
            f" {server.most_memory >> 20} MB, of jobs {server.most_job_memory >> 20} MB; at most"
            f" {server.most_threads} threads and {server.most_files} open files; jobs {dict(jobs)}"
        )
    assert len(attacks) >= 500
    assert server.most_threads <= _MOST_THREADS
    assert server.most_memory <= idle + _MOST_MEMORY
    assert server.most_job_memory <= _MOST_JOB_MEMORY
    assert {job["status"] for job in state["jobs"]} == {"failed"}
    assert not [job for job in state["jobs"] if not job["error"] or "Traceback" in job["error"]]
    assert {path.name for path in server.folder.iterdir()} == before
    assert not list(server.folder.parent.rglob("evil*"))
