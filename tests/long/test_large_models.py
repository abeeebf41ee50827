"""Models of 100,000 operations are described, planned and estimated within a gigabyte of memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.large_models import converted_program, deep_network, plain_program, wide_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

_MOST_BYTES = 1_000_000_000
_PROGRAM = """
import contextlib, io, json, sys
from coremlscope.cli.main import main
with contextlib.redirect_stdout(io.StringIO()) as shown:
    code = main(sys.argv[1:])
status = open("/proc/self/status").read()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
print(json.dumps({"code": code, "peak": peak, "shown": shown.getvalue()}))
"""


@pytest.mark.parametrize(
    ("build", "shown"),
    [
        (plain_program, "100000 relu"),
        (converted_program, "50000 add"),
        (wide_program, "input_0"),
        (deep_network, "100000 activation"),
    ],
)
def test_inspect(build: Callable[[int], bytes], shown: str, tmp_path: Path) -> None:
    assert shown in _run("inspect", build, tmp_path)


@pytest.mark.parametrize("verb", ["plan", "estimate"])
def test_plans(verb: str, tmp_path: Path) -> None:
    assert _run(verb, converted_program, tmp_path, "--device", "m1")


def _run(verb: str, build: Callable[[int], bytes], folder: Path, *options: str) -> str:
    path = folder / "m.mlmodel"
    path.write_bytes(build(10**5))
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, verb, str(path), *options],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    answer = json.loads(done.stdout)
    assert answer["code"] == 0
    assert len(answer["shown"].splitlines()) < 1000
    assert answer["peak"] < _MOST_BYTES
    return str(answer["shown"])
