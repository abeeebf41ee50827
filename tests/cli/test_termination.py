"""SIGTERM, as `timeout` and CI systems send it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coremlscope.__main__ import main
from coremlscope.base.processes.command import LIFELINE
from tests.support.processes import children_of, is_running, wait_for

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows ends a process without telling it")


def test_sigterm_removes_temporary_files(sample: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "coremlscope", "profile", str(sample), "--iterations", "100000"]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        # Python may be interrupted between the creation of a folder and the note that it is to be removed.
        while not any(scratch.rglob("request")):
            assert process.poll() is None
            time.sleep(0.01)
        # `timeout` sends it to the process and to its group.
        process.terminate()
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert b"Traceback" not in errors
    assert list(scratch.iterdir()) == []


def test_the_handler_is_there_only_while_the_command_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def terminate(*_: object) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr("coremlscope.cli.main", terminate)
    before = signal.getsignal(signal.SIGTERM)
    assert main() == 143
    assert capsys.readouterr().err == "interrupted\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coremlscope.cli.main", lambda: signal.raise_signal(signal.SIGTERM) or 7)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert main() == 7
    finally:
        signal.signal(signal.SIGTERM, before)


#: Verbs whose work is done by child processes, in the middle of which they are killed.
_WORKING = {
    "profile": ("--iterations", "1000000"),
    "sweep": ("--measure", "--iterations", "1000000", "--workers", "1"),
    "what-if": ("--no-cache", "--workers", "2"),
    "verify": ("--reference",),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the test finds children by Linux's list of processes")
@pytest.mark.parametrize("verb", _WORKING)
def test_children_end_with_a_parent_that_is_killed(verb: str, sample: Path, tmp_path: Path) -> None:
    models = [str(sample)] * (2 if verb == "verify" else 1)
    command = [sys.executable, "-m", "coremlscope", verb, *_WORKING[verb], *models]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=quiet, stderr=quiet) as process:
        assert wait_for(lambda: children_of(process.pid))
        time.sleep(0.5)  # They are in the middle of their work.
        children = children_of(process.pid)
        process.kill()
    assert children
    assert wait_for(lambda: not any(map(is_running, children)))


def test_a_child_ends_when_its_lifeline_closes() -> None:
    code = (
        "from coremlscope.base.processes.command import follow_parent\n"
        "follow_parent()\nprint(flush=True)\nwhile True: pass"
    )
    lifeline, held = os.pipe()
    environment = {**os.environ, LIFELINE: str(lifeline)}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, pass_fds=(lifeline,)
    ) as process:
        os.close(lifeline)
        assert process.stdout is not None
        process.stdout.readline()
        assert process.poll() is None
        os.close(held)
        assert process.wait(30) == 1
