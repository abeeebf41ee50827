"""Files that every verb writes and sockets that it opens, by strace, in an empty home."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from coremlscope.cli.main import VERBS, main
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from tests.support.private_home import Home, private_home

#: The program itself is the process that is started, and strace ends after it.
_STRACE = ["strace", "-D", "-f", "-s", "256", "-e", "trace=network,openat,open,creat"]
_VERBS = (
    ("profile", "m.mlpackage", "--iterations", "3", "--device", "m1", "-o", "p.html", "-o", "p.json"),
    ("predict", "m.mlpackage", "--input", "image=i.npy", "-o", "outputs"),
    ("export", "m.mlpackage", "m.onnx"),
    ("compile", "m.mlpackage"),
    ("inspect", "m.mlpackage", "-o", "m.md"),
    ("estimate", "m.mlpackage", "--device", "every"),
    ("plan", "m.mlpackage", "--device", "m1"),
    ("compare", "m.mlpackage", "--iterations", "2"),
    ("m.mlpackage", "--device", "m1"),
    ("profile", "m.mlpackage", "--iterations", "2", "--engine", "openvino"),
    ("check", "m.mlpackage", "--max-latency", "m1=1s", "--min-psnr", "10"),
    ("verify", "m.mlpackage", "--reference", "m.mlpackage"),
    ("what-if", "m.mlpackage", "--device", "m1"),
    ("sweep", "m.mlpackage", "--device", "m1", "-o", "sweep"),
    ("rules", "--op", "conv"),
    ("ops", "conv"),
    ("devices",),
    ("schema",),
    ("cache",),
    ("measurements", "list"),
    ("completion", "bash"),
    ("trace", "-o", "t.json", "--", "s.py"),
    ("run", "s.py"),
    ("doctor",),
    ("runner", "app", "m.mlpackage"),
    ("isolate", "m.mlpackage", "--type", "softmax", "-o", "part.mlpackage", "--engine", "onnxruntime"),
    ("import", "saved.json"),
    ("convert", "net.pt2", "--core-ml", "-o", "."),
    ("mcp",),
)
#: What a verb needs that is not among what all tests need.
_NEEDED = {"convert": "torch", "mcp": "mcp"}
#: A session of the Model Context Protocol with one call.
_SESSION: tuple[dict[str, Any], ...] = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "a", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {
        "id": 2,
        "method": "tools/call",
        "params": {"name": "answer", "arguments": {"model": "m.mlpackage", "device": "m1"}},
    },
)
#: A line of another thread may come between a call and its result.
_CREATED = re.compile(
    r"\bopen(?:at)?\([^\"\n]*\"([^\"\n]*)\", [^)\n]*\bO_(?:WRONLY|RDWR|CREAT)[^\n=]*(?:\) = \d|<unfinished)"
)
_INTERNET = re.compile(r"\b(\w+)\(.*sa_family=AF_INET6?, .*(?:inet_addr\(|inet_pton\(AF_INET6, )\"([^\"]+)\"")
_LOOPBACK = {"127.0.0.1", "::1"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    import numpy as np

    works = shutil.which("strace") and not subprocess.run(["strace", "true"], capture_output=True).returncode
    if not works:
        pytest.skip("strace is not installed or may not trace")
    home = private_home(tmp_path_factory.mktemp("user"))
    write_mlpackage(sample_model(size=32, width=0.25, classes=2), home.work / "m.mlpackage")
    (home.work / "s.py").write_text("import coremltools\n", encoding="utf-8")
    np.save(home.work / "i.npy", np.zeros((1, 3, 32, 32), np.uint8))
    saved = str(home.work / "saved.json")
    assert main(["plan", str(home.work / "m.mlpackage"), "--device", "m1", "-o", saved, "--quiet"]) == 0
    return home


def _write_program(path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.export.save(torch.export.export(torch.nn.Linear(4, 4).eval(), (torch.zeros(1, 4),)), path)


def _talk(process: subprocess.Popen[str]) -> str:
    """Sends the session, and returns the last answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    answer = ""
    for message in _SESSION:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
        if "id" in message:
            answer = process.stdout.readline()
    return answer


def _command(home: Home, arguments: Sequence[str], log: Path) -> list[str]:
    variables = [f"{name}={value}" for name, value in home.variables.items()]
    variables.append("PYTHONDONTWRITEBYTECODE=1")
    python = [sys.executable, "-B", "-m", "coremlscope"]
    return ["env", "-i", *variables, *_STRACE, "-o", str(log), *python, *arguments]


def _whole(log: Path) -> str:
    """Reads a trace when strace has ended."""
    for _ in range(300):
        text = log.read_text(encoding="utf-8", errors="replace")
        if text.rstrip().endswith("+++"):  # how it tells the end of the last process
            return text
        time.sleep(0.1)
    raise AssertionError("strace did not end")


def _check(home: Home, log: Path, *, is_server: bool = False) -> None:
    text = _whole(log)
    created = {home.work / name for name in _CREATED.findall(text)}
    roots = (home.folder / ".cache" / "coremlscope", home.temporary, home.work, Path("/dev"), Path("/proc"))
    assert {path for path in created if not any(root in (path, *path.parents) for root in roots)} == set()
    assert "openat(" in text
    addresses = {address for _, address in _INTERNET.findall(text)}
    assert addresses <= _LOOPBACK if is_server else not addresses
    assert ("socket(AF_INET" in text) == is_server
    assert home.strangers() == []


@pytest.mark.parametrize("arguments", _VERBS, ids=lambda arguments: arguments[0])
def test_a_verb_stays_at_home(arguments: Sequence[str], home: Home, tmp_path: Path) -> None:
    log = tmp_path / "trace.log"
    if arguments[0] in _NEEDED:
        pytest.importorskip(_NEEDED[arguments[0]])
    if arguments[0] == "convert":
        _write_program(home.work / "net.pt2")
    pipe = subprocess.PIPE
    command = _command(home, arguments, log)
    with subprocess.Popen(command, cwd=home.work, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        if arguments == ("mcp",):
            assert "headline" in _talk(process)
        _, errors = process.communicate()
    assert process.returncode in (0, 1) if arguments == ("doctor",) else process.returncode == 0, errors
    _check(home, log)


def test_every_verb_is_among_them() -> None:
    assert {arguments[0] for arguments in _VERBS} | {"serve"} >= set(VERBS)


@contextlib.contextmanager
def _served(home: Home, log: Path) -> Iterator[str]:
    command = _command(home, ["serve", "--port", "0"], log)
    server = subprocess.Popen(command, cwd=home.work, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        with server.stdout:
            yield server.stdout.readline().strip()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def test_the_server_stays_at_home(home: Home, tmp_path: Path) -> None:
    log = tmp_path / "trace.log"
    with _served(home, log) as url:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", parts.path)
            assert b"<html" in connection.getresponse().read()
    _check(home, log, is_server=True)
