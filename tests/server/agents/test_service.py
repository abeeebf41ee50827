"""Questions through the SDK's own client, over standard input and output, and what the verbs answer."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope.cli import main
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from tests.support.preloaded import preloaded_command, preloading

# Importing it takes a second, in each process that collects tests.
if importlib.util.find_spec("mcp") is None:
    pytest.skip("belongs to the extra `mcp`", allow_module_level=True)
anyio = pytest.importorskip("anyio")


#: Where tests write their files.
_ROOTS = ("--root", "/dev/shm", "--root", tempfile.gettempdir())


#: A server as users start it.
_WHOLE = (sys.executable, "-m", "coremlscope")


def _ask(questions: list[tuple[str, dict[str, Any]]], *options: str, server: Sequence[str] = ()) -> list[Any]:
    """Starts a server, and returns its answers; the first is the list of its tools."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def talk() -> list[Any]:
        command, *arguments = (*(server or preloaded_command("agents")), "mcp", *_ROOTS, *options)
        parameters = StdioServerParameters(command=command, args=arguments)
        async with Client(stdio_client(parameters, sys.__stderr__)) as client:
            return [await client.list_tools(), *[await client.call_tool(*one) for one in questions]]

    return list(anyio.run(talk))


@pytest.fixture(scope="module", autouse=True)
def _forked_servers() -> Iterator[None]:
    with preloading("agents"), preloading("engine"):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("asked")
    write_mlpackage(sample_model(size=64, width=0.5, classes=10), path / "a.mlpackage")
    write_mlpackage(sample_model(1, size=64, width=0.5, classes=10), path / "b.mlpackage")
    for name in "ab":
        saved = ["-o", str(path / f"{name}.json"), "--quiet"]
        assert main(["plan", str(path / f"{name}.mlpackage"), "--device", "m1", *saved]) == 0
    (path / "core_ml.log").write_text("Error: Failed to build the model execution plan, error code: -14.\n")
    np.savez(path / "none.npz", nothing=np.zeros(1))
    with (path / "zeros.mlmodel").open("wb") as file:
        file.truncate(1 << 32)
    whole = next((path / "a.mlpackage").rglob("*.mlmodel")).read_bytes()
    (path / "cut.mlmodel").write_bytes(whole[: len(whole) // 2])
    (path / "endless.mlmodel").symlink_to("/dev/zero")
    return path


#: A tool, its arguments, and the same for the verb; `@` is the folder.
_A, _B = "@/a.mlpackage", "@/b.mlpackage"
_M4 = {"model": _A, "device": "m4"}
_QUESTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("answer", _M4, f"answer {_A} --device m4"),
    ("inspect", {"model": _A}, f"inspect {_A}"),
    ("inspect", {"model": _A, "ops": True}, f"inspect {_A} --ops"),
    ("inspect", {"model": _B, "function": "main"}, f"inspect {_B} --function main"),
    ("plan", _M4, f"plan {_A} --device m4"),
    ("plan", {**_M4, "os": "15"}, f"plan {_A} --device m4 --os 15"),
    ("plan", {**_M4, "compute_units": "cpu_only"}, f"plan {_A} --device m4 --compute-units cpu_only"),
    ("plan", {"model": _A, "device": "iphone-13"}, f"plan {_A} --device iphone-13"),
    ("explain", {**_M4, "op": "conv"}, f"plan {_A} --device m4 --explain conv"),
    ("explain", {**_M4, "op": "softmax"}, f"plan {_A} --device m4 --explain softmax"),
    ("estimate", {"models": [_A], "device": "m4"}, f"estimate {_A} --device m4"),
    ("estimate", {"models": [_A, _B], "device": "m1,a15"}, f"estimate {_A} {_B} --device m1,a15"),
    ("compare", {"sources": ["@/a.json", "@/b.json"]}, "compare @/a.json @/b.json"),
    ("check", {"models": [_A], "max_size": "1GB"}, f"check {_A} --max-size 1GB"),
    ("check", {"models": [_A], "max_latency": ["m4=1ns"]}, f"check {_A} --max-latency m4=1ns"),
    ("verify", {"model": _A, "reference": _A}, f"verify {_A} --reference {_A}"),
    ("doctor", {"files": ["@/core_ml.log"]}, "doctor @/core_ml.log"),
    ("answer", {**_M4, "function": "main"}, f"answer {_A} --device m4 --function main"),
    ("rules", {"rule": "ne-conv-width"}, "rules ne-conv-width"),
    ("rules", {"op": "gather", "device": "m1"}, "rules --op gather --device m1"),
    ("rules", {"unit": "gpu", "effect": "rejects"}, "rules --unit gpu --effect rejects"),
    ("rules", {}, "rules"),
]


#: Times of day differ between two runs.
_WHEN = ("at",)


def _assert_same(short: Any, whole: Any) -> None:
    """A short form has the values of the whole, and says how much is left out."""
    if isinstance(whole, list) and isinstance(short, dict):
        assert short["count"] == len(whole)
        short = short["first"]
        whole = whole[: len(short)]
    if isinstance(whole, dict):
        left_out = short.get("…", {"keys": len(short)})["keys"]
        assert left_out == len(whole)
        for key in short.keys() - {"…", *_WHEN}:
            _assert_same(short[key], whole[key])
    elif isinstance(whole, list):
        assert len(short) == len(whole)
        for one, other in zip(short, whole, strict=True):
            _assert_same(one, other)
    elif isinstance(whole, str):
        assert whole.startswith(short.partition("… (whole: ")[0])
    else:
        assert short == (pytest.approx(whole, rel=1e-3) if isinstance(whole, float) else whole)


def _in(folder: Path, value: Any) -> Any:
    return json.loads(json.dumps(value).replace("@/", f"{folder}/"))


def test_the_same_values_as_the_verbs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = [(tool, _in(folder, arguments)) for tool, arguments, _ in _QUESTIONS]
    listed, *answers = _ask(questions)
    assert {tool.name for tool in listed.tools} == {tool for tool, *_ in _QUESTIONS} | {"more"}
    for answer, (_, _, line) in zip(answers, _QUESTIONS, strict=True):
        verb, *_ = line.split()
        words = line.removeprefix("answer ").replace("@/", f"{folder}/").split()
        code = main([*words, "--json", "-"])
        whole = json.loads(capsys.readouterr().out)
        assert not answer.is_error, answer
        assert answer.structured_content["result"]["exit_code"] == code
        _assert_same(answer.structured_content["result"][verb], whole)
        assert len(answer.content[0].text) < 10_000


def test_the_findings_of_a_plan(folder: Path) -> None:
    saved = json.loads((folder / "a.json").read_text())["findings"]
    assert saved
    questions = [("plan", {"model": _A, "device": "m1"}), ("estimate", {"models": [_A, _B], "device": "m1"})]
    _, planned, estimated = _ask([(tool, _in(folder, arguments)) for tool, arguments in questions])
    _assert_same(planned.structured_content["result"]["findings"], saved)
    both = estimated.structured_content["result"]["findings"]
    assert [one["id"] for one in both] == 2 * [one["id"] for one in saved]


#: Tools and arguments that end with an exit code.
_REFUSED: list[tuple[str, dict[str, Any], int]] = [
    ("inspect", {"model": "/dev/zero"}, 2),
    ("doctor", {"files": ["/proc/self/environ"]}, 2),
    ("inspect", {"model": "@/../../../../../../../etc/passwd"}, 2),
    ("inspect", {"model": "@/endless.mlmodel"}, 2),
    ("verify", {"model": _A, "reference": _A, "inputs": {"image": "/etc/hostname"}}, 2),
    ("check", {"models": [_A], "max_latencies": ["m4=1ms"]}, 2),
    ("chek", {"models": [_A]}, 2),
    ("check", {"models": _A}, 2),
    ("check", {}, 2),
    ("more", {"id": "a1", "offset": -1}, 2),
    ("plan", {"model": "@/zeros.mlmodel", "device": "m4"}, 3),
    ("plan", {"model": "@/cut.mlmodel", "device": "m4"}, 3),
    ("plan", {"model": _A, "device": "m44"}, 2),
    ("inspect", {"model": "@/--help"}, 3),
    ("plan", {"model": _A, "device": "m4", "os": "1 --share x"}, 2),
    ("verify", {"model": _A, "reference": "@/none.npz"}, 4),
    ("more", {"id": "a9/x"}, 2),
    ("rules", {"rule": "no-such-rule"}, 2),
]


def test_errors_have_a_hint(folder: Path) -> None:
    _, *answers = _ask([(tool, _in(folder, arguments)) for tool, arguments, _ in _REFUSED])
    for answer, (_, arguments, code) in zip(answers, _REFUSED, strict=True):
        assert answer.is_error, arguments
        assert (answer.structured_content["exit_code"], bool(answer.structured_content["hint"])) == (
            code,
            True,
        )


def test_limits_end_a_call_and_the_next_is_answered(folder: Path) -> None:
    endless = _in(folder, {"sources": [_A, _B], "iterations": 100_000_000})
    _, ended, after = _ask([("compare", endless), ("more", {"id": "a1"})], "--timeout", "3", server=_WHOLE)
    assert (ended.is_error, ended.structured_content["error"]) == (True, "LimitError")
    assert after.structured_content["exit_code"] == 2
    question = ("verify", _in(folder, {"model": _A, "reference": _A}))
    _, ended = _ask([question], "--memory", "20MB", server=_WHOLE)
    assert (ended.is_error, ended.structured_content["exit_code"]) == (True, 10)


def test_files_are_written_only_where_that_is_allowed(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    question = ("report", _in(folder, {"model": _A, "device": "m4", "output": str(page)}))
    listed, refused = _ask([question])
    assert all(tool.annotations.read_only_hint for tool in listed.tools)
    assert refused.is_error
    assert not page.exists()
    _, written = _ask([question], "--allow-write")
    assert not written.is_error
    assert page.read_text().startswith("<!")


def test_a_pasted_text_is_explained_like_a_file(folder: Path) -> None:
    text = (folder / "core_ml.log").read_text()
    file = _in(folder, {"files": ["@/core_ml.log"]})
    _, pasted, read = _ask([("doctor", {"text": text}), ("doctor", file)])
    (told,), (expected,) = (one.structured_content["result"]["doctor"]["files"] for one in (pasted, read))
    assert told.pop("path") != expected.pop("path")
    assert told == expected


def _talk(
    steps: Any, *options: str, mark: str = "", roots: Sequence[Path] = (), server: Sequence[str] = _WHOLE
) -> Any:
    from mcp import types
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def talk() -> Any:
        command, *arguments = (*server, "mcp", *options)
        parameters = StdioServerParameters(
            command=command, args=arguments, env={**os.environ, "ASKED_BY": mark}
        )
        # Only the older protocol, which most clients speak, lets a server ask.
        asked = {"mode": "legacy", "list_roots_callback": named} if roots else {}
        async with Client(stdio_client(parameters, sys.__stderr__), **asked) as client:
            return await steps(client)

    async def named(_: Any) -> Any:
        return types.ListRootsResult(roots=[types.Root(uri=folder.as_uri()) for folder in roots])

    return anyio.run(talk)


def _processes(mark: str) -> list[int]:
    """Returns the server of a test and the processes that answer its calls."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"ASKED_BY={mark}\0".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return sorted(found)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads the list of processes")
@pytest.mark.parametrize(
    "end", ["cancel", "close", signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL]
)
def test_a_call_that_nobody_waits_for_ends(folder: Path, end: str | signal.Signals) -> None:
    endless = _in(folder, {"sources": [_A, _B], "iterations": 100_000_000})
    mark, ended = uuid.uuid4().hex, list[signal.Signals]()

    async def until(is_so: Callable[[list[int]], bool]) -> list[int]:
        with anyio.fail_after(60):
            while not is_so(found := _processes(mark)):
                await anyio.sleep(0.1)
        return found

    async def steps(client: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "compare", endless)
            server, *_ = await until(lambda found: len(found) > 1)
            if isinstance(end, signal.Signals):
                os.kill(server, end)
                with anyio.CancelScope(shield=True):  # The client misses its server.
                    await until(lambda found: not found)
                    ended.append(end)
            group.cancel_scope.cancel()
        if end == "cancel":
            await until(lambda found: found == [server])
            assert (await client.call_tool("more", {"id": "a1"})).is_error

    with contextlib.suppress(*([Exception] if isinstance(end, signal.Signals) else [])):
        _talk(steps, *_ROOTS, mark=mark)
    assert bool(ended) is isinstance(end, signal.Signals)
    anyio.run(until, lambda found: not found)


def test_it_ends_where_nobody_reads_its_answers() -> None:
    command = [sys.executable, "-m", "coremlscope", "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        told = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": told}
        server.stdin.write(json.dumps(asked).encode() + b"\n")
        server.stdin.flush()
        assert b"serverInfo" in server.stdout.readline()
        server.stdout.close()
        assert server.wait(60) == 0


def test_errors_hide_no_characters(tmp_path: Path) -> None:
    (tmp_path / "\u202e\n.mlmodel").write_bytes(b"x")
    _, told = _ask([("inspect", {"model": str(tmp_path / "\u202e\n.mlmodel")})])
    assert "\\u202e\\n.mlmodel is not a Core ML model" in told.structured_content["message"]


def test_the_folders_are_those_of_the_client_else_that_of_the_server(folder: Path) -> None:
    async def steps(client: Any) -> Any:
        return await client.call_tool("inspect", {"model": str(folder / "a.mlpackage")})

    server = preloaded_command("agents")
    refused = _talk(steps, server=server)
    assert refused.is_error
    assert "--root" in refused.structured_content["hint"]
    assert not _talk(steps, roots=[folder], server=server).is_error
