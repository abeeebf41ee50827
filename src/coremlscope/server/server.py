"""The server: sockets and threads around `App`."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from coremlscope.errors import UsageError
from coremlscope.server.app import App, Request, Response
from coremlscope.server.jobs import JobQueue
from coremlscope.server.store import ProfileStore
from coremlscope.version import __version__

__all__ = ["Address", "Limits", "serve"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: Maximum number of connections waiting to be accepted, and of requests handled concurrently.
_BACKLOG, _AT_ONCE = 256, 32
#: Seconds without a byte after which a connection is closed.
_SILENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Address:
    """The address to listen on.

    Attributes:
        host: A host name or an address of this machine.
        port: The port; 0 for any free port.
        is_remote_allowed: Whether other machines may connect.
    """

    host: str = "127.0.0.1"
    port: int = 0
    is_remote_allowed: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of requests.

    Attributes:
        upload_bytes: Maximum size of an uploaded model.
    """

    upload_bytes: int = 1 << 30


@contextlib.contextmanager
def serve(folder: Path, address: Address, limits: Limits) -> Iterator[tuple[str, Callable[[], None]]]:
    """Runs the server while the context lasts.

    Args:
        folder: The saved profiles.
        address: Where to listen.
        limits: Limits of requests.

    Yields:
        The address of the page, its token included, and a function that answers requests until the process is
        interrupted or the context ends in another thread.

    Raises:
        UsageError: Other machines could connect, which is not allowed; or the address is in use.
        OutputError: The folder cannot be created.
    """
    _check_host(address)
    store = ProfileStore(folder)
    token = secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory(prefix="coremlscope-serve-", ignore_cleanup_errors=True) as uploads:
        queue = JobQueue(store.add)
        app = App(
            store,
            queue,
            token,
            hosts=None if address.is_remote_allowed else _LOOPBACK,
            max_upload_bytes=limits.upload_bytes,
            uploads=Path(uploads),
        )
        try:
            with _listen(app, address) as server:
                host = f"[{address.host}]" if ":" in address.host else address.host
                try:
                    yield f"http://{host}:{server.server_port}/{token}/", server.answer
                finally:
                    server.stop()
        finally:
            queue.close()


def _check_host(address: Address) -> None:
    if address.is_remote_allowed or address.host in _LOOPBACK:
        return
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(address.host).is_loopback:
            return
    raise UsageError(
        f"{address.host!r} can be reached from other machines, which could then profile models on this one",
        "add --allow-remote if that is intended; the token in the address is then the only protection",
    )


def _listen(app: App, address: Address) -> _Server:
    try:
        return _Server(app, address)
    except (OSError, OverflowError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {address.host}:{address.port}: {what}", "choose another --port, or 0 for any"
        ) from None


class _Server(ThreadingHTTPServer):
    request_queue_size = _BACKLOG
    daemon_threads = True
    # A thread of an abandoned connection must not delay the end of the process.
    block_on_close = False

    def __init__(self, app: App, address: Address) -> None:
        self.app = app
        self.is_answering = False
        self.slots = threading.BoundedSemaphore(_AT_ONCE)
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), _Handler)

    def answer(self) -> None:
        """Answers requests until `stop`."""
        self.is_answering = True
        self.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """Ends `answer`, which may run in another thread."""
        if self.is_answering:
            self.shutdown()

    def server_bind(self) -> None:
        # The parent asks the name service for the host's full name, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores broken connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = f"coremlscope/{__version__}"
    sys_version = ""
    timeout = _SILENCE_S
    server: _Server

    def handle_expect_100(self) -> bool:
        """Rejects a model that is too large before it is uploaded."""
        length = self._length()
        if length is not None and length > self.server.app.max_upload_bytes:
            self._send(self._answer())
            return False
        return super().handle_expect_100()

    def do_GET(self) -> None:
        """Answers the request."""
        self._send(self._answer())

    do_HEAD = do_POST = do_DELETE = do_PUT = do_OPTIONS = do_PATCH = do_GET  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing: the terminal shows the address."""

    def _length(self) -> int | None:
        text = self.headers.get("content-length", "")
        return int(text) if text.isdecimal() and len(text) < 16 else None

    def _answer(self) -> Response:
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = self._length()
        has_body = length not in (None, 0) or "transfer-encoding" in headers
        request = Request(
            method=self.command, target=self.path, headers=headers, body=self.rfile, length=length
        )
        if self.command == "POST":  # receiving an upload may take minutes
            return self.server.app.answer(request)
        with self.server.slots:
            response = self.server.app.answer(request)
        if has_body:
            self.close_connection = True
        return response

    def _send(self, response: Response) -> None:
        if not response.has_read and self.command == "POST":
            self.close_connection = True
        self.send_response(response.status)
        self.send_header("Content-Type", response.type)
        self.send_header("Content-Length", str(len(response.content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        if response.location:
            self.send_header("Location", response.location)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD" and response.status != HTTPStatus.NO_CONTENT:
            self.wfile.write(response.content)
