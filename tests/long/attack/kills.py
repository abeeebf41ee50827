"""Kills verbs, `serve` with running requests and `mcp` with running calls at random moments.

`make attack-verbs ARGS="--kills 30"` ends each of them so often, by SIGTERM and SIGKILL in turns, and then
runs it again. Faults are processes that go on, files that the next start leaves, results that are not whole,
exits that are not clear, and a next run that fails or hangs.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from PIL import Image

from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from tests.long.attack.__main__ import Tally

__all__ = ["attack_by_kills"]

#: Seconds after which a process that goes on is a fault; a busy machine slows all of them down.
_PATIENCE_S = 60.0
_MODEL = "m.mlpackage"
_FEW = ["--iterations", "3", "--compile-iterations", "1", "--load-iterations", "1", "--warmups", "1"]
_DEVICE = ["--device", "m4", "--json", "x.json"]
#: What is killed, and the files that it writes.
_VERBS: dict[str, list[str]] = {
    "answer": [_MODEL, *_DEVICE],
    "plan": ["plan", _MODEL, *_DEVICE, "-o", "x.html"],
    "estimate": ["estimate", _MODEL, *_DEVICE],
    "profile": ["profile", _MODEL, *_FEW, "--json", "x.json"],
    "predict": ["predict", _MODEL, "--input", "image=image.png", "-o", "x"],
    "export": ["export", _MODEL, "x.onnx"],
    "compile": ["compile", _MODEL, "x.mlmodelc", "--overwrite"],
    "compare": ["compare", _MODEL, "n.mlpackage", *_FEW, "--json", "x.json"],
    "verify": ["verify", _MODEL, "--reference", _MODEL, "--json", "x.json"],
    "what-if": ["what-if", _MODEL, "--try", "palettize-4", "--device", "m4", "--json", "x.json"],
    "check": ["check", _MODEL, "--min-psnr", "10", "--json", "x.json"],
    "doctor": ["doctor", _MODEL, "--json", "x.json"],
    "sweep": ["sweep", _MODEL, "n.mlpackage", "--device", "m4", "-o", "x"],
    "trace": ["trace", "-o", "x.html", "program.py"],
}
_PROGRAM = """\
import coremltools as ct, numpy as np
from PIL import Image
model = ct.models.MLModel("m.mlpackage")
for _ in range(20):
    model.predict({"image": Image.new("RGB", (32, 32))})
"""


def _living(mark: str) -> list[int]:
    """Returns the processes of a run, which inherit its mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_zombie = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if not is_zombie and f"KILLED_AS={mark}\0".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def _left(folder: Path) -> list[str]:
    """Returns the temporary files of runs, in their temporary folder and next to results."""
    found = [*(folder / "tmp").iterdir(), *folder.rglob(".coremlscope-*")]
    return sorted(str(path.relative_to(folder)) for path in found)


def _broken(work: Path) -> str:
    """Returns which result is not whole; a result exists as a whole, or not at all."""
    for path in work.glob("x*.json"):
        try:
            json.loads(path.read_text())
        except ValueError:
            return f"{path.name} is not whole"
    page = work / "x.html"
    if page.exists() and not page.read_text().rstrip().endswith("</html>"):
        return "x.html is not whole"
    return ""


class _Started:
    """A process in a session of its own, with folders of its own.

    Args:
        arguments: Those of the command.
        folder: Its folder, with `work` and `tmp` in it.
    """

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        self.mark = uuid.uuid4().hex
        places = {"TMPDIR": "tmp", "COREMLSCOPE_CACHE": "cache", "COREMLSCOPE_DATA": "data", "HOME": "home"}
        own = {name: str(folder / place) for name, place in places.items()}
        self._errors = (folder / "stderr").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "coremlscope", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=folder / "work",
            env={**os.environ, **own, "KILLED_AS": self.mark},
            start_new_session=True,
            # A shell starts programs in the background with SIGINT ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        self._said = folder / "stderr"

    def end(self, number: int | None) -> str:
        """Ends the process by a signal, or waits for it; returns what is wrong."""
        if number is not None:
            self.process.send_signal(number)
        try:
            self.process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            return "hang"
        finally:
            self._errors.close()
        deadline = time.monotonic() + _PATIENCE_S
        while going := _living(self.mark):
            if time.monotonic() > deadline:
                for process in going:
                    os.kill(process, signal.SIGKILL)
                return f"{len(going)} processes go on"
            time.sleep(0.05)
        said = self._said.read_text(errors="replace")
        if "Traceback (most recent call last)" in said or "Exception ignored" in said:
            return f"traceback: {said[-2000:]}"
        if number is None and self.process.returncode:
            return f"the next run ended with {self.process.returncode}: {said[-2000:]}"
        return ""


def _first_line(started: _Started) -> bytes:
    assert started.process.stdout is not None
    return started.process.stdout.readline()


def _request(started: _Started, work: Path) -> None:
    """Opens a model in the page's server, and asks for its profile without waiting for the answer."""
    parts = urlsplit(_first_line(started).decode().strip())
    files = [path for path in (work / _MODEL).rglob("*") if path.is_file()]
    head = [{"path": path.relative_to(work).as_posix(), "size": path.stat().st_size} for path in files]
    content = b"".join(path.read_bytes() for path in files)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE_S)
    connection.request("POST", f"{parts.path}models", json.dumps(head).encode() + b"\n" + content)
    name = json.loads(connection.getresponse().read().splitlines()[-1])["id"]
    body = json.dumps({"paths": [_MODEL]}).encode()
    connection.request("POST", f"{parts.path}models/{name}/profile", body + b"\n")


def _call(started: _Started, work: Path) -> None:
    """Asks the agents' door for a comparison without waiting for the answer."""
    sources = [str(work / name) for name in (_MODEL, "n.mlpackage")]
    told = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    _send(started, {"id": 1, "method": "initialize", "params": told})
    _first_line(started)
    _send(started, {"method": "notifications/initialized"})
    arguments = {"sources": sources, "iterations": 1_000_000}
    _send(started, {"id": 2, "method": "tools/call", "params": {"name": "compare", "arguments": arguments}})


def _send(started: _Started, message: dict[str, Any]) -> None:
    assert started.process.stdin is not None
    started.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    started.process.stdin.flush()


#: The servers, and what keeps them busy.
_SERVERS: dict[str, tuple[list[str], Callable[[_Started, Path], None]]] = {
    "serve": (["serve", "--port", "0"], _request),
    "mcp": (["mcp", "--root", "."], _call),
}


def _kill_verb(verb: str, folder: Path, generator: random.Random, number: int) -> Iterator[str]:
    """Yields what is wrong after a kill, and after the next run."""
    started = _Started(_VERBS[verb], folder)
    # The whole run takes about two seconds on a machine that has nothing else to do.
    time.sleep(generator.uniform(0.05, 3.0))
    yield started.end(number)
    yield _broken(folder / "work")
    (folder / "work" / "x.onnx").unlink(missing_ok=True)
    yield _Started(_VERBS[verb], folder).end(None)
    yield _broken(folder / "work")


def _kill_server(name: str, folder: Path, generator: random.Random, number: int) -> Iterator[str]:
    arguments, ask = _SERVERS[name]
    for is_killed in (True, False):
        started = _Started(arguments, folder)
        # The next one is asked in any case: one that ends earlier removes nothing.
        if not is_killed or generator.random() < 0.8:
            ask(started, folder / "work")
        time.sleep(generator.uniform(0.0, 3.0))
        # The next one ends as a user ends it.
        yield started.end(number if is_killed else signal.SIGINT)


def _perform(name: str, generator: random.Random, number: int) -> str:
    """Returns what is wrong with a kill; empty if nothing is."""
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        for place in ("work", "tmp", "cache", "data", "home"):
            (folder / place).mkdir()
        for seed, model in enumerate((_MODEL, "n.mlpackage")):
            write_mlpackage(sample_model(seed, size=32, width=0.5, classes=10), folder / "work" / model)
        (folder / "work" / "program.py").write_text(_PROGRAM)
        Image.new("RGB", (32, 32)).save(folder / "work" / "image.png")
        kill = _kill_server if name in _SERVERS else _kill_verb
        faults = [fault for fault in kill(name, folder, generator, number) if fault]
        left = _left(folder)
        return "; ".join([*faults, *([f"left {', '.join(left[:3])}"] if left else [])])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def attack_by_kills(kills: int, *, seed: int = 0, only: str = "") -> Tally:
    """Kills each verb and server at random moments.

    Args:
        kills: How often each is killed.
        seed: Selects the moments.
        only: The verb, or the server; empty for all.
    """
    tally = Tally()
    for name in [only] if only else [*_VERBS, *_SERVERS]:
        for number in range(1, kills + 1):
            how = signal.SIGTERM if number % 2 else signal.SIGKILL
            fault = _perform(name, random.Random(f"kills {seed} {name} {number}"), how)
            outcome = "fault" if fault else "used"
            tally.add(name, number, {"outcome": outcome, "memory": 0, "bytes": 0, "trace": fault})
            if fault:
                print(f"{name} {number} {how.name}: {fault}", flush=True)
    return tally
