"""A program called `xcrun` that plays Instruments back from a script: it is put on PATH in xcrun's place."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

__all__ = ["ScriptedXcrun"]

_PROGRAM = """#!{python}
import json, os, pathlib, signal, sys, time

folder = pathlib.Path({folder!r})
script = json.loads((folder / "script.json").read_text())
arguments = sys.argv[1:]
with (folder / "calls.jsonl").open("a") as log:
    log.write(json.dumps(arguments) + "\\n")

def count(name):
    file = folder / ("count-" + name)
    number = int(file.read_text()) + 1 if file.exists() else 1
    file.write_text(str(number))
    return number

def after(option):
    return arguments[arguments.index(option) + 1] if option in arguments else ""

if script.get("fails"):
    print("xcrun: error: unable to find utility \\"xctrace\\", not a developer tool", file=sys.stderr)
    sys.exit(72)
verb = arguments[1]
if verb == "list":
    if script.get("list_hangs"):
        time.sleep(60)
    print("== Standard Templates ==")
    print("\\n".join(script["templates"]))
elif verb == "record":
    trace = pathlib.Path(after("--output"))
    if "--attach" in arguments and script.get("cannot_attach"):
        print("Cannot attach to process: operation not permitted")
        sys.exit(21)
    if script.get("record_fails"):
        print("Recording failed: the device is locked")
        sys.exit(1)
    ended = []
    signal.signal(signal.SIGINT, lambda *_: None if script.get("never_stops") else ended.append(1))
    print("Starting recording with the Core ML template.", flush=True)
    if not script.get("never_starts"):
        print("Ctrl-C to stop the recording", flush=True)
    deadline = time.monotonic() + 60
    while not ended and time.monotonic() < deadline:
        time.sleep(0.01)
    if not script.get("writes_nothing"):
        trace.mkdir()
        (trace / "pid").write_text(after("--attach"))
    print("Output file saved as: " + trace.name)
elif verb == "export":
    trace = pathlib.Path(after("--input"))
    query = after("--xpath") or "toc"
    name = query.split('"')[3] if '"' in query else query
    if count(name) <= script["crashes"].get(name, 0):
        os.kill(os.getpid(), signal.SIGSEGV)
    if name in script.get("export_hangs", []):
        time.sleep(60)
    pid = (trace / "pid").read_text() or script.get("pid", "0")
    text = script["tables"].get(name, "<trace-query-result><node xpath=\\"x\\"/></trace-query-result>")
    pathlib.Path(after("--output")).write_text(text.replace("PID", pid))
"""


class ScriptedXcrun:
    """Writes the program and its script, and puts it first on PATH.

    Args:
        folder: Where it is written.
        monkeypatch: Changes PATH.
        tables: By name what the export of a table is; `PID` in it becomes the id of the recorded process.
        script: What else it does: see the program.
    """

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, tables: dict[str, str], **script: Any
    ) -> None:
        self._folder = folder
        program = folder / "xcrun"
        program.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
        program.chmod(0o755)
        given = {"templates": ["Blank", "Core ML"], "tables": tables, "crashes": {}} | script
        (folder / "script.json").write_text(json.dumps(given))
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of each call so far."""
        log = self._folder / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
