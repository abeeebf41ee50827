"""Bodies of requests, received with deadlines, and of responses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from coremlscope.server.limits import ServerLimits

__all__ = [
    "EventStream",
    "Places",
    "RefusedError",
    "discard_body",
    "json_response",
    "receive_body",
    "refusal",
    "respond",
]

#: Limits of the body of a refused request, which is read so that its client reads the response: a connection
#: that is closed while data arrives is reset.
_DISCARDED_BYTES, _DISCARDED_S = 1 << 20, 1.0
_CHUNK_BYTES = 1 << 16


class RefusedError(Exception):
    """A request cannot be answered.

    Args:
        status: The status of the response.
        error: One sentence that describes the problem.
        hint: One sentence that suggests a solution.
    """

    def __init__(self, status: HTTPStatus, error: str, hint: str = "") -> None:
        super().__init__(error)
        self.status, self.error, self.hint = status, error, hint


class Places:
    """A number of requests that may be answered at the same time; others are refused.

    A place is counted when it is given, so that of many requests at once no more get one. For one thread.

    Args:
        most: The number.
        error: Why further ones are refused.
        hint: What to do.
    """

    def __init__(self, most: int, error: str, hint: str) -> None:
        self._free, self._error, self._hint = most, error, hint

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Takes a place while the context lasts.

        Raises:
            RefusedError: There is none.
        """
        if self._free <= 0:
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, self._error, self._hint)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


class EventStream(StreamingResponse):
    """Server-sent events, of which a limited number of pages gets some.

    Args:
        events: The events.
        places: The places of pages; without a free one the request is refused.
    """

    def __init__(self, events: AsyncGenerator[str | bytes, None], places: Places) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events, self._places = events, places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events until the client goes away."""
        async with contextlib.aclosing(self._events):
            with self._places.take():
                await super().__call__(scope, receive, send)


def json_response(values: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Returns a response with plain values as JSON."""
    return respond(msgspec.json.encode(values), "application/json", status)


def respond(content: bytes, media_type: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Returns a response that is sent in parts, as fast as the client reads: only one copy is kept."""

    async def parts() -> AsyncGenerator[memoryview, None]:
        for start in range(0, len(content), _CHUNK_BYTES):
            yield memoryview(content)[start : start + _CHUNK_BYTES]

    return StreamingResponse(parts(), status, {"Content-Length": str(len(content))}, media_type)


def refusal(status: int, error: str, hint: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Returns a response that states in a sentence why a request is refused."""
    content = msgspec.json.encode({"error": error, "hint": hint})
    return Response(content, status, headers, media_type="application/json")


async def receive_body(receive: Receive, limits: ServerLimits) -> AsyncGenerator[bytes, None]:
    """Yields the parts of a body; ends early if the client goes away.

    Raises:
        RefusedError: The client is slower than the limits allow.
    """
    clock = asyncio.get_running_loop().time
    left_s, received, has_more = limits.window_s, 0, True
    while has_more:
        begun, chunk = clock(), b""
        try:
            async with asyncio.timeout(left_s):
                message = await receive()
        except TimeoutError:
            left_s = 0.0
        else:
            left_s -= clock() - begun  # only what the client takes, not the disk
            chunk, has_more = message.get("body", b""), message.get("more_body", False)
        received += len(chunk)
        if has_more and left_s <= 0:
            if received < limits.slowest_Bps * limits.window_s:
                raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, "the upload is too slow", "upload it again")
            left_s, received = limits.window_s, 0
        if chunk:
            yield chunk


async def discard_body(headers: Headers, receive: Receive) -> None:
    """Reads what a client sends with a refused request, within limits, unless it waits to be asked for it."""
    if "expect" in headers or not {"content-length", "transfer-encoding"} & set(headers):
        return
    discarded, has_more = 0, True
    try:
        async with asyncio.timeout(_DISCARDED_S):
            while has_more and discarded < _DISCARDED_BYTES:
                message = await receive()
                discarded += len(message.get("body", b""))
                has_more = message.get("more_body", False)
    except TimeoutError:
        pass
