"""The server over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.results.profile import write_profiles
from coremlscope.server.limits import ServerLimits
from coremlscope.server.server import Address, serve
from tests.support.profiles import small_profile


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with serve(tmp_path / "profiles", Address(), ServerLimits()) as (address, answer):
        threading.Thread(target=answer, daemon=True).start()
        yield address


def _connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)


def _get(url: str, path: str = "") -> tuple[int, bytes]:
    with contextlib.closing(_connect(url)) as connection:
        connection.request("GET", urlsplit(url).path + path)
        response = connection.getresponse()
        return response.status, response.read()


def _head(url: str, length: int) -> bytes:
    start = f"POST {urlsplit(url).path}jobs?name=m.mlmodel HTTP/1.1"
    return f"{start}\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode()


def test_two_hundred_requests_at_once(url: str) -> None:
    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(lambda _: _get(url), range(200)))
    assert {status for status, _ in answers} == {200}


def test_a_model_is_profiled_and_devices_are_added(url: str, tmp_path: Path) -> None:
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), tmp_path / "m.mlpackage")
    archive = shutil.make_archive(str(tmp_path / "m"), "zip", tmp_path, "m.mlpackage")
    with contextlib.closing(_connect(url)) as connection:
        connection.request(
            "POST", f"{urlsplit(url).path}jobs?name=m.zip&iterations=2", Path(archive).read_bytes()
        )
        assert connection.getresponse().status == 202
    done = _wait(url, "done")
    status, page = _get(url, f"profiles/{done['profile']}")
    assert status == 200
    assert b"coremlscope.profile/2" in page

    measured = json.loads(_get(url, f"profiles/{done['profile']}.json")[1])
    with contextlib.closing(_connect(url)) as connection:
        query = f"profiles/{done['profile']}/devices?devices=iPhone%2015%20Pro,m1"
        connection.request("POST", urlsplit(url).path + query)
        assert connection.getresponse().status == 202
    assert _wait(url, "done", 2)["profile"] == done["profile"]
    extended = json.loads(_get(url, f"profiles/{done['profile']}.json")[1])
    assert [plan["device"] for plan in extended["plans"]] == ["iPhone 15 Pro", "M1"]
    assert {estimate["device"] for estimate in extended["estimates"]} == {"iPhone 15 Pro", "M1"}
    assert extended["measurements"] == measured["measurements"]


def _wait(url: str, status: str, jobs: int = 1) -> dict[str, Any]:
    """Waits until the latest of a number of jobs has a status."""
    for _ in range(600):
        job, *others = json.loads(_get(url, "state")[1])["jobs"]
        if len(others) == jobs - 1 and job["status"] not in ("waiting", "running"):
            break
        time.sleep(0.1)
    assert job["status"] == status, job
    found: dict[str, Any] = job
    return found


@pytest.mark.usefixtures("_real_children")
def test_a_model_that_is_damaged(url: str) -> None:
    with contextlib.closing(_connect(url)) as connection:
        connection.request("POST", f"{urlsplit(url).path}jobs?name=m.mlmodel", b"\x08\x07junk")
        assert connection.getresponse().status == 202
    job = _wait(url, "failed")
    assert job["error"].startswith("m.mlmodel ")


def test_what_is_known_of_a_model_that_cannot_be_run_is_kept(url: str, tmp_path: Path) -> None:
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), tmp_path / "m.mlpackage")
    for weights in (tmp_path / "m.mlpackage").rglob("*.bin"):
        weights.unlink()
    archive = shutil.make_archive(str(tmp_path / "m"), "zip", tmp_path, "m.mlpackage")
    with contextlib.closing(_connect(url)) as connection:
        connection.request(
            "POST", f"{urlsplit(url).path}jobs?name=m.zip&devices=m1", Path(archive).read_bytes()
        )
        assert connection.getresponse().status == 202
    job = _wait(url, "failed")
    assert job["error"].startswith("The model was not measured: weights are missing")
    kept = json.loads(_get(url, f"profiles/{job['profile']}.json")[1])
    assert (kept["measurements"], kept["plans"][0]["device"]) == ([], "M1")
    assert [finding["id"] for finding in kept["findings"]][:1] == ["not-measured"]


def test_changes_are_streamed(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    with serve(folder, Address(), ServerLimits(watchers=1)) as (url, answer):
        threading.Thread(target=answer, daemon=True).start()
        with contextlib.closing(_connect(url)) as connection:
            connection.request("GET", urlsplit(url).path + "events")
            events = connection.getresponse()
            assert events.getheader("content-type", "").startswith("text/event-stream")
            assert _next_event(events)[0] == "state"
            assert _get(url, "events")[0] == 503
            write_profiles(folder / "new.json", [small_profile()])
            name, state = _next_event(events)
            assert (name, [entry["id"] for entry in state["profiles"]]) == ("state", ["new"])
            with contextlib.closing(_connect(url)) as other:
                other.request("POST", f"{urlsplit(url).path}jobs?name=m.json", b"{")
                assert other.getresponse().status == 202
            with contextlib.closing(_connect(url)) as other:
                other.request("DELETE", f"{urlsplit(url).path}jobs/1")
                assert other.getresponse().status == 200
            statuses: list[str] = []
            while statuses[-1:] != ["cancelled"]:
                name, jobs = _next_event(events)
                statuses += [job["status"] for job in jobs] if name == "jobs" else []
            begun = time.monotonic()
    assert time.monotonic() - begun < 1.5  # open streams do not delay the end


def _next_event(events: http.client.HTTPResponse) -> tuple[str, Any]:
    """Reads an event; signs of life are skipped."""
    while not (line := events.readline()).startswith(b"event: "):
        assert line
    return line.split()[1].decode(), json.loads(events.readline().removeprefix(b"data: "))


def test_an_upload_of_two_gigabytes_is_refused_before_it_comes(url: str) -> None:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as raw:
        raw.sendall(_head(url, 2 << 30))
        assert raw.recv(100).startswith(b"HTTP/1.1 413")
    assert _get(url)[0] == 200


def test_browsers_that_go_away(url: str) -> None:
    parts = urlsplit(url)
    for sent in (b"", b"GET", _head(url, 1000) + b"half"):
        raw = socket.create_connection((parts.hostname, parts.port), timeout=10)
        raw.sendall(sent)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        raw.close()
    assert _get(url)[0] == 200
    assert json.loads(_get(url, "state")[1])["jobs"] == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", ""])
def test_other_machines_are_kept_out(host: str, tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="can be reached from other machines"),
        serve(tmp_path, Address(host), ServerLimits()),
    ):
        pass


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = Address(port=taken.getsockname()[1])
        with pytest.raises(UsageError, match="cannot listen on"), serve(tmp_path, address, ServerLimits()):
            pass
