"""Responses, refusals, and streams of events."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send


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
    return Response(msgspec.json.encode(values), status, media_type="application/json")


def refusal(status: int, error: str, hint: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Returns a response that states in a sentence why a request is refused."""
    content = msgspec.json.encode({"error": error, "hint": hint})
    return Response(content, status, headers, media_type="application/json")
