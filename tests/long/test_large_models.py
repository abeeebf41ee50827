"""Very large models take no more memory than three times their file, and 200 MB."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.large_models import converted_program, deep_network, plain_program, wide_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

_TIMES, _FREE_BYTES = 3, 200_000_000
_PROGRAM = """
import contextlib, io, json, sys
from coremlscope.cli.main import main
with contextlib.redirect_stdout(io.StringIO()) as shown:
    code = main(["inspect", sys.argv[1]])
status = open("/proc/self/status").read()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
print(json.dumps({"code": code, "peak": peak, "shown": shown.getvalue()}))
"""


@pytest.mark.parametrize(
    ("build", "size", "shown"),
    [
        (plain_program, 10**6, "1000000 relu"),
        (converted_program, 10**6, "500000 add"),
        (wide_program, 10**6, "input_0"),
        (deep_network, 10**5, "100000 activation"),
    ],
)
def test_inspect(build: Callable[[int], bytes], size: int, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "m.mlmodel"
    path.write_bytes(build(size))
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(path)], capture_output=True, text=True, check=True, timeout=900
    )
    answer = json.loads(done.stdout)
    assert answer["code"] == 0
    assert shown in answer["shown"]
    assert len(answer["shown"].splitlines()) < 1000
    assert answer["peak"] < _TIMES * path.stat().st_size + _FREE_BYTES
