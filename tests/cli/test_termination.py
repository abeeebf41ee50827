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

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows ends a process without telling it")


def test_sigterm_removes_temporary_files(sample: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "coremlscope", "profile", str(sample), "--iterations", "100000"]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        while not any(scratch.iterdir()):
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
