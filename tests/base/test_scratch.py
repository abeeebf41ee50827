"""Temporary folders of processes that are killed go when the next process starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_HOLD = """
import sys, time
from pathlib import Path
from coremlscope.base.scratch import new_scratch, scratch_folder
held = scratch_folder()
for folder in (new_scratch("model-", ".mlmodelc"), Path(held.name)):
    (folder / "weights").write_bytes(b"1")
print("ready", flush=True)
time.sleep(float(sys.argv[1]))
"""


def _start(folder: Path, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(seconds)],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_what_a_killed_process_leaves_goes_at_the_next_start(end: str, tmp_path: Path) -> None:
    with _start(tmp_path, 60) as killed, _start(tmp_path, 60) as living:
        getattr(killed, end)()
        killed.wait()
        assert len(list(tmp_path.iterdir())) == 2
        with _start(tmp_path, 0) as third:
            third.wait()
        (left,) = tmp_path.iterdir()
        assert len(list(left.rglob("weights"))) == 2
        living.kill()
