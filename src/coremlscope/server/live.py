"""A page that shows a running program: its recording so far, sent as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from coremlscope.base.errors import UsageError
from coremlscope.reports.page import build_page, trace_values
from coremlscope.results.trace import Trace
from coremlscope.server.guard import Guard
from coremlscope.server.limits import ServerLimits
from coremlscope.server.responses import EventStream, Places
from coremlscope.server.server import Address, run_app

#: Seconds between two readings of the recording.
_INTERVAL_S = 1.0


@contextlib.contextmanager
def serve_program(
    read: Callable[[], Trace], address: Address, limits: ServerLimits
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Serves the recording of a running program while the context lasts.

    Args:
        read: Returns the recording so far; raises UsageError while there is none.
        address: Where to listen.
        limits: Limits of requests.

    Yields:
        The address of the page, and a function that answers requests; see `serve`.

    Raises:
        UsageError: The address cannot be used.
    """
    with run_app(_LiveApp(read, limits), address, limits) as running:
        yield running


class _LiveApp:
    def __init__(self, read: Callable[[], Trace], limits: ServerLimits) -> None:
        self._read = read
        self._watchers = Places(limits.watchers, "too many pages are open", "close some of them")
        self.is_stopping: Callable[[], bool] = lambda: False

    def guarded(self, token: str, hosts: frozenset[str] | None) -> ASGIApp:
        """Returns the application for a server; see `Guard`."""
        routes = [Route("/", self._home), Route("/events", self._events)]
        return Guard(Starlette(routes=routes), token, hosts)

    async def _home(self, _: Request) -> Response:
        try:
            trace = await run_in_threadpool(self._read)
        except UsageError:
            text = "The program has not recorded anything yet. Reload this page in a moment.\n"
            return Response(text, media_type="text/plain")
        values = {**trace_values(trace), "live": True}
        page = build_page(values, " ".join(trace.command), connects=True)
        return HTMLResponse(page)

    async def _events(self, _: Request) -> Response:
        return EventStream(self._changes(), self._watchers)

    async def _changes(self) -> AsyncGenerator[str | bytes, None]:
        """Yields the recording whenever it has more events, and signs of life."""
        before = -1
        while not self.is_stopping():
            with contextlib.suppress(UsageError):
                trace = await run_in_threadpool(self._read)
                newest = int(trace.events.end_ns.max()) if len(trace.events) else 0
                if newest != before:
                    before = newest
                    values = {**trace_values(trace), "live": True}
                    yield b"event: trace\ndata: " + msgspec.json.encode(values) + b"\n\n"
                else:
                    yield b":\n\n"
            await asyncio.sleep(_INTERVAL_S)
