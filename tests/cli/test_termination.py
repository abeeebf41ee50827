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


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds children by Linux's list of processes")
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


#: Native code that keeps the interpreter, so that no thread and no handler of a signal runs.
_HOLDS = "import ctypes, os; os.write(1, b'%d\\n' % os.getpid()); ctypes.PyDLL(None).sleep(600)"
_KILLED = f"""
import os, signal, sys
from coremlscope.base.processes.child import Child, ChildLimits, Task
child = Child([sys.executable, "-c", {_HOLDS!r}])
print(child._lines.get().decode(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_ends_that_keeps_the_interpreter() -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    child = int(done.stdout)

    def has_ended() -> bool:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return True
        # Nothing may collect the status of a process whose parent was killed.
        return sys.platform == "linux" and not is_running(child)

    assert wait_for(has_ended)
