"""What the server does when many requests come at once, from other pages, and when a job fails in any way."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec.structs
import pytest

from coremlscope.base.errors import known_error
from coremlscope.results.profile import write_profiles
from coremlscope.server.jobs import JobQueue
from coremlscope.server.limits import ServerLimits
from coremlscope.server.server import Address, serve
from tests.support.foreign_errors import FOREIGN, SYSTEM, raising
from tests.support.profiles import small_profile

_LIMITS = ServerLimits(upload_bytes=1 << 20, uploads=2, watchers=3, connections=40)
_CROWD = 24
_PATIENCE_S = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "profiles"


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with serve(folder, Address(), _LIMITS) as (address, answer):
        threading.Thread(target=answer, daemon=True).start()
        yield address


def _request(
    url: str, method: str, path: str = "", body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE_S)
    with contextlib.closing(connection):
        connection.request(method, parts.path + path, body or None, headers or {})
        response = connection.getresponse()
        return response.status, response.read()


def _state(url: str) -> Any:
    return json.loads(_request(url, "GET", "state")[1])


def _ended(url: str, count: int) -> list[Any]:
    """Returns the jobs, the first one first, when so many have ended."""
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        jobs = _state(url)["jobs"]
        if sum(job["status"] in ("done", "failed") for job in jobs) == count:
            return list(reversed(jobs))
        time.sleep(0.1)
    pytest.fail("the jobs did not end")


def _crowd(url: str, head: str) -> list[int]:
    """Sends a request many times at once, and returns the statuses that came while all were open."""
    parts = urlsplit(url)
    with contextlib.ExitStack() as stack:
        sockets = []
        for _ in range(_CROWD):
            raw = socket.create_connection((parts.hostname, parts.port), timeout=_PATIENCE_S)
            sockets.append(stack.enter_context(contextlib.closing(raw)))
        for raw in sockets:
            raw.sendall(head.encode())
        statuses = []
        for raw in sockets:
            raw.settimeout(2.0)
            with contextlib.suppress(TimeoutError):
                statuses.append(int(raw.recv(100).split()[1]))
        return statuses


def test_no_more_uploads_than_allowed_come_at_once(url: str) -> None:
    path = urlsplit(url).path
    head = f"POST {path}jobs?name=m.mlmodel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf"
    statuses = _crowd(url, head)
    assert statuses == [503] * (_CROWD - _LIMITS.uploads)
    end = time.monotonic() + _PATIENCE_S
    while _request(url, "POST", "jobs?name=m.json", b"{")[0] != 202:  # places are given back
        assert time.monotonic() < end
        time.sleep(0.1)


def test_no_more_streams_of_events_than_allowed(url: str) -> None:
    statuses = _crowd(url, f"GET {urlsplit(url).path}events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert sorted(statuses) == [200] * _LIMITS.watchers + [503] * (_CROWD - _LIMITS.watchers)
    end = time.monotonic() + _PATIENCE_S
    while (
        sorted(_crowd(url, f"GET {urlsplit(url).path}events HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0] != 200
    ):
        assert time.monotonic() < end


def test_one_preview_is_made_at_a_time(url: str) -> None:
    parts = quote(json.dumps([{"input": "x", "name": "a.json", "size": 100}]))
    path = f"{urlsplit(url).path}profiles/p/preview?parts={parts}"
    statuses = _crowd(url, f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
    assert statuses == [503] * (_CROWD - 1)


def test_requests_on_more_connections_than_allowed_are_refused(url: str) -> None:
    parts = urlsplit(url)
    with contextlib.ExitStack() as stack:
        for _ in range(_LIMITS.connections):
            raw = socket.create_connection((parts.hostname, parts.port), timeout=_PATIENCE_S)
            stack.enter_context(contextlib.closing(raw))
        assert _request(url, "GET")[0] == 503
    end = time.monotonic() + _PATIENCE_S
    while _request(url, "GET")[0] != 200:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_why_an_upload_is_refused_is_told_though_it_was_sent(url: str) -> None:
    sent = bytes(64 << 20)
    for path, status in (("jobs?name=m.mlmodel", 413), ("jobs?name=m.exe", 413), ("profiles/p", 405)):
        found, content = _request(url, "POST", path, sent)
        assert (found, bool(json.loads(content)["error"])) == (status, True)
    found, content = _request(f"{url[:-2]}/", "POST", "jobs?name=m.mlmodel", sent)
    assert (found, bool(json.loads(content)["error"])) == (404, True)
    assert _state(url)["jobs"] == []


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("GET http://[ HTTP/1.1\nHost: localhost\n\n", 404),
        ("GET TOKEN HTTP/1.1\nHost: localhost\nHost: localhost\n\n", 400),
        ("GET TOKEN HTTP/1.1\nHost: localhost\nContent-Length: 1\nContent-Length: 2\n\na", 400),
        ("GET TOKEN HTTP/1.1\nHost: a\nContent-Length: 1\nTransfer-Encoding: chunked\n\n0\n\n", 400),
        ("GET TOKEN HTTP/1.1\n\n", 400),
        (f"GET TOKEN HTTP/1.1\nHost: localhost\nA: {'a' * 300_000}", 400),
    ],
)
def test_malformed_requests_are_refused(url: str, sent: str, status: int) -> None:
    parts = urlsplit(url)
    raw = socket.create_connection((parts.hostname, parts.port), timeout=_PATIENCE_S)
    with contextlib.closing(raw), contextlib.suppress(ConnectionError):
        raw.sendall(sent.replace("TOKEN", parts.path).replace("\n", "\r\n").encode())
        assert raw.recv(100).split()[1] == str(status).encode()


def test_nothing_that_follows_a_body_of_two_lengths_is_answered(url: str) -> None:
    parts = urlsplit(url)
    lines = ("Host: localhost", "Content-Length: 4", "Transfer-Encoding: chunked", "", "0", "", "")
    hidden = f"GET {parts.path}state HTTP/1.1\r\nHost: localhost\r\n\r\n"
    sent = "\r\n".join((f"POST {parts.path}jobs?name=m.mlmodel HTTP/1.1", *lines)) + hidden
    received = b""
    raw = socket.create_connection((parts.hostname, parts.port), timeout=_PATIENCE_S)
    with contextlib.closing(raw), contextlib.suppress(ConnectionError):
        raw.sendall(sent.encode())
        while chunk := raw.recv(1 << 16):
            received += chunk
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "file://"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "jobs?name=m.json"), ("DELETE", "profiles/p"), ("PATCH", "profiles/p"), ("DELETE", "jobs/1")],
)
def test_other_pages_change_nothing(method: str, path: str, origin: str, url: str, folder: Path) -> None:
    write_profiles(folder / "p.json", [small_profile()])
    status, _ = _request(url, method, path, b"{}", {"Origin": origin})
    assert status == 403
    assert [entry["id"] for entry in _state(url)["profiles"]] == ["p"]
    assert _state(url)["jobs"] == []


def test_the_own_page_and_programs_change_the_state(url: str, folder: Path) -> None:
    own = url.rpartition("/")[0].rpartition("/")[0]
    for name, headers in (("p", {"Origin": own}), ("q", {}), ("r", {"Origin": own.replace("http", "https")})):
        write_profiles(folder / f"{name}.json", [small_profile()])
        assert _request(url, "DELETE", f"profiles/{name}", headers=headers)[0] == 200
    assert _state(url)["profiles"] == []


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "-1", "ΩΩ"])
def test_a_profile_of_no_possible_time_is_kept_and_shown(moment: str, url: str, tmp_path: Path) -> None:
    profile = small_profile()
    odd = msgspec.structs.replace(profile, made=msgspec.structs.replace(profile.made, at=moment))
    write_profiles(tmp_path / "odd.json", [odd])
    for name in ("odd.json", "next.json"):
        assert _request(url, "POST", f"jobs?name={name}", (tmp_path / "odd.json").read_bytes())[0] == 202
    jobs = _ended(url, 2)
    assert [job["status"] for job in jobs] == ["done", "done"]
    ids = [job["profile"] for job in jobs]
    assert {entry["id"] for entry in _state(url)["profiles"]} == set(ids)
    for path in ("", f"profiles/{quote(ids[0])}", f"compare?id={quote(ids[0])}&id={quote(ids[1])}"):
        assert _request(url, "GET", path)[0] == 200


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="names are text there")
def test_a_name_that_is_not_text_is_shown_and_can_be_changed(url: str, folder: Path) -> None:
    write_profiles(folder / "good.json", [small_profile()])
    shutil.copy(folder / "good.json", folder / os.fsdecode(b"odd\xff.json"))
    (folder / os.fsdecode(b"bad\xfe.json")).write_bytes(b"{")
    entries = {entry["id"]: entry["problem"] for entry in _state(url)["profiles"]}
    assert set(entries) == {"good", "odd\\xff", "bad\\xfe"}
    assert bool(entries["bad\\xfe"])
    odd = quote("odd\\xff")
    for path in ("", f"profiles/{odd}", f"profiles/{odd}.json", f"profiles/{quote('bad' + chr(92) + 'xfe')}"):
        assert _request(url, "GET", path)[0] in (200, 400)
    assert _request(url, "GET", f"profiles/{odd}")[0] == 200
    assert _request(url, "PATCH", f"profiles/{odd}", b'{"name": "even", "tags": ["a"]}')[0] == 200
    assert {entry["id"] for entry in _state(url)["profiles"]} == {"good", "even", "bad\\xfe"}


_COPY = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])"


def test_a_job_that_fails_in_any_way_is_followed_by_others(tmp_path: Path) -> None:
    errors = [*FOREIGN, *SYSTEM, MemoryError()]
    failures = iter(errors)

    def keep(*_: object) -> str:
        error = next(failures, None)
        return "kept" if error is None else str(raising(error)())

    queue = JobQueue(keep, (sys.executable, "-I", "-S", "-c", _COPY))
    ended: list[Any] = []
    for number in range(len(errors) + 1):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "m.mlmodel").write_bytes(b"model")
        job = queue.add(place / "m.mlmodel", {})
        end = time.monotonic() + _PATIENCE_S
        while job.status in ("waiting", "running"):
            assert time.monotonic() < end
            time.sleep(0.01)
        ended.append(job)
    queue.close()
    assert [job.status for job in ended] == ["failed"] * len(errors) + ["done"]
    assert [job.error.split(" (")[0] for job in ended[:-1]] == [
        known_error(error, "m.mlmodel").message.split(" (")[0] for error in errors
    ]
