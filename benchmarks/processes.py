"""What a process used: processor time, time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Used", "run_measured"]

#: Linux counts the memory of the process that starts another as the other's, so a small one starts it.
_START = """
import json, os, sys, time
quiet = [(os.POSIX_SPAWN_OPEN, to, os.devnull, os.O_WRONLY, 0) for to in (1, 2)]
begun = time.perf_counter()
_, status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet), 0)
figures = used.ru_utime + used.ru_stime, time.perf_counter() - begun, used.ru_maxrss / 1000
print(json.dumps((os.waitstatus_to_exitcode(status), figures)))
"""


class Used(NamedTuple):
    """What a process and its children used; the memory is that of the largest of them."""

    cpu_s: float
    wall_s: float
    memory_mb: float


def run_measured(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, Used]:
    """Runs a command silently, and returns its exit code and what it used.

    Args:
        words: The program, as a path, and its arguments.
        folder: The current folder of the command.
        environment: The environment.
    """
    line = [sys.executable, "-I", "-S", "-c", _START, *words]
    done = subprocess.run(line, env=environment, cwd=folder, check=True, stdout=subprocess.PIPE)
    code, figures = json.loads(done.stdout)
    return code, Used(*figures)
