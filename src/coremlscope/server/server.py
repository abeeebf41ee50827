"""The server: its sockets, and uvicorn around `App`."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import msgspec
import uvicorn
from starlette.types import ASGIApp

from coremlscope.base.errors import UsageError
from coremlscope.base.processes.child import ChildLimits
from coremlscope.base.version import __version__
from coremlscope.server.app import App
from coremlscope.server.limits import ServerLimits
from coremlscope.server.uploads import Uploads

_NO_LIMITS = ChildLimits()
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: Maximum number of connections waiting to be accepted.
_BACKLOG = 256
#: Seconds that responses have to be completed when the server stops.
_GRACE_S = 2
#: Maximum size of the models that are kept, in uploads of the maximum size.
_KEPT_UPLOADS = 4
#: What clients send wrongly is no error here; `Guard` logs those of the application.
_QUIET = {
    "version": 1,
    "incremental": True,
    "loggers": {name: {"level": "CRITICAL"} for name in ("asyncio", "uvicorn.error")},
}
_HEADERS = (
    ("Server", f"coremlscope/{__version__}"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
)


class Address(msgspec.Struct, frozen=True):
    """The address to listen on.

    Attributes:
        host: A host name or an address of this machine.
        port: The port; 0 for any free port.
        is_remote_allowed: Whether other machines may connect.
    """

    host: str = "127.0.0.1"
    port: int = 0
    is_remote_allowed: bool = False


@contextlib.contextmanager
def serve(
    address: Address, limits: ServerLimits, work_limits: ChildLimits = _NO_LIMITS
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Runs the server while the context lasts.

    Args:
        address: Where to listen.
        limits: Limits of requests.
        work_limits: When to give up a work.

    Yields:
        The address of the page, its token included, and a function that answers requests until the process is
        interrupted or the context ends in another thread.

    Raises:
        UsageError: Other machines could connect, which is not allowed; or the address is in use.
        OutputError: A folder cannot be created.
    """
    _check_host(address)
    with contextlib.closing(Uploads(_KEPT_UPLOADS * limits.upload_bytes)) as uploads:
        app = App(uploads, limits, work_limits)
        with _run_app(app, address, limits) as running:
            yield running


@contextlib.contextmanager
def _run_app(app: App, address: Address, limits: ServerLimits) -> Iterator[tuple[str, Callable[[], None]]]:
    token = secrets.token_urlsafe(16)
    hosts = None if address.is_remote_allowed else _LOOPBACK | {address.host.lower()}
    with _listen(address) as listening:
        server = _Server(app.guarded(token, hosts), listening, limits)
        app.is_stopping = server.is_stopping
        host = f"[{address.host}]" if ":" in address.host else address.host
        try:
            yield f"http://{host}:{listening.getsockname()[1]}/{token}/", server.answer
        finally:
            server.stop()


def _check_host(address: Address) -> None:
    if address.is_remote_allowed or address.host in _LOOPBACK:
        return
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(address.host).is_loopback:
            return
    raise UsageError(
        f"{address.host!r} can be reached from other machines, which could then run models on this one",
        "add --allow-remote if that is intended; the token in the address is then the only protection",
    )


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {address.host}:{address.port}: {what}", "choose another --port, or 0 for any"
        ) from None


class _Server:
    def __init__(self, app: ASGIApp, listening: socket.socket, limits: ServerLimits) -> None:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=_QUIET,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            headers=list(_HEADERS),
            backlog=_BACKLOG,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=limits.head_bytes,
        )
        self._server, self._listening = uvicorn.Server(config), listening
        self._has_ended = threading.Event()
        self._has_ended.set()

    def answer(self) -> None:
        """Answers requests until `stop`, or until the process is interrupted or asked to end."""
        self._has_ended.clear()
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGTERM)
        try:
            if is_main:
                # uvicorn repeats the signal when it has ended, which must not end the process before.
                signal.signal(signal.SIGTERM, self._server.handle_exit)
            self._server.run(sockets=[self._listening])
        finally:
            if is_main:
                signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
            self._has_ended.set()

    def is_stopping(self) -> bool:
        """Returns True if the process was interrupted, or `stop` was called."""
        return self._server.should_exit

    def stop(self) -> None:
        """Ends `answer`, which may run in another thread."""
        self._server.should_exit = True
        self._has_ended.wait(timeout=2 * _GRACE_S)
