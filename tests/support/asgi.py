"""Requests to an ASGI application without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

__all__ = ["Answer", "ask"]


@dataclass
class Answer:
    """A response."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""

    def json(self) -> Any:
        """Returns the content, which is JSON."""
        return json.loads(self.content)


def ask(
    app: ASGIApp,
    method: str,
    target: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """Sends a request as a server would, and returns the response.

    Args:
        app: The application.
        method: `GET`, `POST`, …
        target: The path with its query, encoded; it is passed on as it is.
        headers: By name.
        body: What arrives of the body before the client goes away.
    """
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    stated = int((headers or {}).get("content-length", len(body)))
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": stated > len(body)}]
    answer = Answer()

    async def receive() -> Message:
        if not messages and stated == len(body):
            await asyncio.Event().wait()  # the client waits for the response
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            answer.content += message.get("body", b"")

    asyncio.run(app(scope, receive, send))
    return answer
