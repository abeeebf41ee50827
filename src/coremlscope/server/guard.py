"""Checks that come before every request: its framing, its host name and the token in its address."""

from __future__ import annotations

import asyncio
import hmac
import logging
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from coremlscope.errors import known_error
from coremlscope.server.bodies import discard_body, refusal

__all__ = ["Guard"]


_LOG = logging.getLogger("coremlscope.server")
#: Methods that change nothing. Browsers name the page that a request comes from with all others.
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
#: Requests that take minutes: uploads, and streams of events. Each has a limit of its own.
_LASTING, _EVENTS = frozenset({"events", "jobs"}), "/events"


class Guard:
    """Passes those requests on that have the token, without it in their path.

    A request that changes something must also come from a page of this server, or from no page.

    Args:
        app: What answers them.
        token: The first part of every path; requests without it are rejected.
        hosts: Allowed names in the `Host` header; None for any. This prevents other web pages from reaching
            the server under a name that resolves to this machine.
        most: Maximum number of short requests that are answered concurrently; further ones wait.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str] | None, most: int) -> None:
        self._app, self._token, self._hosts = app, token, hosts
        self._places = asyncio.Semaphore(most)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":  # the start and the end of the server
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        token, _, rest = scope["path"].removeprefix("/").partition("/")
        refused = self._check(scope["method"], headers, token)
        if refused is not None:
            await discard_body(headers, receive)
            await refused(scope, receive, send)
        elif scope["path"] == f"/{token}":
            await RedirectResponse(f"/{token}/", HTTPStatus.SEE_OTHER)(scope, receive, send)
        elif rest in _LASTING or rest.endswith(_EVENTS):
            await self._answer({**scope, "path": f"/{rest}"}, receive, send)
        else:
            async with self._places:
                await self._answer({**scope, "path": f"/{rest}"}, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:  # the client was told, as far as the response had not begun
            _LOG.error(
                "%s", known_error(error, scope["path"]).message, exc_info=_LOG.isEnabledFor(logging.DEBUG)
            )

    def _check(self, method: str, headers: Headers, token: str) -> Response | None:
        if "content-length" in headers and "transfer-encoding" in headers:
            return refusal(HTTPStatus.BAD_REQUEST, "the request has a length and a transfer encoding")
        hosts = headers.getlist("host")
        if len(hosts) > 1:
            return refusal(HTTPStatus.BAD_REQUEST, "the request has several host names")
        if self._hosts is not None and _host_name("".join(hosts)) not in self._hosts:
            return refusal(HTTPStatus.FORBIDDEN, "invalid host name for this server")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return refusal(HTTPStatus.NOT_FOUND, "open the address that `coremlscope serve` printed")
        origins = headers.getlist("origin")
        if method not in _READING and origins and origins != [f"http://{''.join(hosts)}"]:
            return refusal(HTTPStatus.FORBIDDEN, "the request comes from another page")
        return None


def _host_name(header: str) -> str:
    """Returns the name in a `Host` header, without the port."""
    name, _, port = header.rpartition(":")
    return (name if name and port.isdecimal() else header).strip("[]").lower()
