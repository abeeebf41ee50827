"""Deadlines and limits of connections, and requests that are refused by their form."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from coremlscope.server.limits import ServerLimits
from coremlscope.server.server import Address, serve
from tests.support.attacks import hostile_folder

_LIMITS = ServerLimits(head_s=0.6, window_s=0.3, slowest_Bps=1 << 20, connections=300, uploads=2)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = hostile_folder(tmp_path_factory.mktemp("server"))
    with serve(folder, Address(), _LIMITS) as (address, answer):
        threading.Thread(target=answer, daemon=True).start()
        yield address


def _connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=10)


def _exchange(url: str, *sent: bytes, pause_s: float = 0.0) -> bytes:
    """Sends pieces, and returns what is received until the server closes the connection."""
    received = b""
    with _connect(url) as client, contextlib.suppress(ConnectionError):
        for piece in sent:
            client.sendall(piece)
            time.sleep(pause_s)
        while chunk := client.recv(1 << 16):
            received += chunk
    return received


def _head(url: str, method: str, path: str, *headers: str) -> bytes:
    lines = [f"{method} {urlsplit(url).path}{path} HTTP/1.1", "Host: localhost", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def test_half_open_connections_need_no_threads_and_are_closed(url: str) -> None:
    before = len(os.listdir("/proc/self/task")) if Path("/proc/self/task").exists() else 0  # noqa: PTH208
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(_connect(url)) for _ in range(400)]
        for client in clients:
            with contextlib.suppress(ConnectionError):  # more than the limit: the oldest are closed
                client.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        if before:
            assert len(os.listdir("/proc/self/task")) <= before + _LIMITS.requests  # noqa: PTH208
        assert _exchange(url, _head(url, "GET", "state")).startswith(b"HTTP/1.1 200")
        for client in clients:
            with contextlib.suppress(ConnectionError):
                assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET TOKEN HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET TOKEN HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
        (b"GET TOKEN HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 1\r\n\r\na", 400),
        (b"GET TOKEN HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na", 400),
        (b"GET TOKEN HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0", 400),
        (b"GET TOKEN HTTP/1.1\r\n\r\n", 400),
        (b"GET TOKEN HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 300_000, 400),
    ],
)
def test_malformed_requests_are_refused(url: str, request_: bytes, status: int) -> None:
    received = _exchange(url, request_.replace(b"TOKEN", urlsplit(url).path.encode()))
    assert received.split()[1:2] == [str(status).encode()]


def test_a_connection_carries_one_request(url: str) -> None:
    received = _exchange(url, _head(url, "GET", "state") * 3)
    assert received.count(b"HTTP/1.1 ") == 1
    assert b"\r\nconnection: close\r\n" in received.lower()


def test_headers_that_arrive_slowly_are_cut_off(url: str) -> None:
    assert _exchange(url, *[b"G"] * 12, pause_s=0.1) == b""


def test_uploads_that_arrive_slowly_are_cut_off(url: str) -> None:
    head = _head(url, "POST", "jobs?name=m.mlmodel", "Content-Length: 100000")
    assert _exchange(url, head, *[b"a"] * 8, pause_s=0.1).startswith(b"HTTP/1.1 408")


def test_responses_that_are_read_slowly_are_cut_off(url: str) -> None:
    with _connect(url) as client:
        client.sendall(_head(url, "GET", "profiles/big.json"))
        time.sleep(1.5)
        received = 0
        with contextlib.suppress(ConnectionError):
            while chunk := client.recv(1 << 20):
                received += len(chunk)
    assert 0 < received < 24 << 20


def test_few_uploads_at_once(url: str) -> None:
    head = _head(url, "POST", "jobs?name=m.mlmodel", "Content-Length: 1000000")
    with contextlib.ExitStack() as stack:
        for _ in range(_LIMITS.uploads):
            stack.enter_context(_connect(url)).sendall(head)
        time.sleep(0.1)
        assert _exchange(url, head).startswith(b"HTTP/1.1 503")
