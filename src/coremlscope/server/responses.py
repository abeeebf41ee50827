"""Responses, refusals, and bodies that must come in time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from coremlscope.server.limits import ServerLimits


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


class WorkStream(StreamingResponse):
    """Lines of JSON on a work, as they come.

    Args:
        lines: The lines.
        held: What is released when the stream ends.
    """

    def __init__(self, lines: AsyncGenerator[bytes], held: contextlib.ExitStack) -> None:
        super().__init__(lines, media_type="application/jsonl")
        self._lines, self._held = lines, held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the lines until the work ends or the client goes away."""
        with self._held:
            async with contextlib.aclosing(self._lines):
                await super().__call__(scope, receive, send)


def in_time(receive: Receive, size: int, limits: ServerLimits) -> Receive:
    """Returns what receives a body, and refuses one that comes too slowly.

    Args:
        receive: Receives its next part.
        size: Its stated size in bytes.
        limits: How long it may take.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + limits.body_s + size / limits.body_Bps
    is_complete = False

    async def receive_in_time() -> Message:
        nonlocal is_complete
        if is_complete:  # what is awaited is the end of the connection
            return await receive()
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError:
            raise RefusedError(
                HTTPStatus.REQUEST_TIMEOUT, "the request takes too long", "send it again"
            ) from None
        is_complete = not message.get("more_body", False)
        return message

    return receive_in_time


def json_response(values: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Returns a response with plain values as JSON."""
    return Response(msgspec.json.encode(values), status, media_type="application/json")


def refusal(status: int, error: str, hint: str = "") -> Response:
    """Returns a response that states in a sentence why a request is refused, and ends the connection.

    What is left of a body that was not received must not be taken for another request.
    """
    content = msgspec.json.encode({"error": error, "hint": hint})
    return Response(content, status, {"connection": "close"}, media_type="application/json")
