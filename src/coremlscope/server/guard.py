"""Checks that come before every request: its framing, its host name and the token in its address."""

from __future__ import annotations

import hmac
import logging
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from coremlscope.base.errors import known_error
from coremlscope.server.limits import ServerLimits
from coremlscope.server.responses import in_time, refusal

_LOG = logging.getLogger("coremlscope.server")
#: Methods that change nothing. Browsers name the page that a request comes from with all others.
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """Passes those requests on that have the token, without it in their path, with bodies that come in time.

    A request that changes something must also come from a page of this server, or from no page.

    Args:
        app: What answers them.
        token: The first part of every path; requests without it are rejected.
        hosts: Allowed names in the `Host` header; None for any. This prevents other web pages from reaching
            the server under a name that resolves to this machine.
        limits: How long a body may take.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str] | None, limits: ServerLimits) -> None:
        self._app, self._token, self._hosts, self._limits = app, token, hosts, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        headers = Headers(scope=scope)
        token, _, rest = scope["path"].removeprefix("/").partition("/")
        refused = self._check(scope["method"], headers, token)
        if refused is not None:
            await refused(scope, receive, send)
        elif scope["path"] == f"/{token}":
            await RedirectResponse(f"/{token}/", HTTPStatus.SEE_OTHER)(scope, receive, send)
        else:
            stated = headers.get("content-length", "")[:20]
            timed = in_time(receive, int(stated) if stated.isdecimal() else 0, self._limits)
            try:
                await self._app({**scope, "path": f"/{rest}"}, timed, send)
            except Exception as error:  # the client was told, as far as the response had not begun
                message = known_error(error, f"/{rest}").message
                _LOG.error("%s", message, exc_info=_LOG.isEnabledFor(logging.DEBUG))

    def _check(self, method: str, headers: Headers, token: str) -> Response | None:
        if "content-length" in headers and "transfer-encoding" in headers:
            # What follows must not be taken for another request.
            return refusal(HTTPStatus.BAD_REQUEST, "the request has a length and a transfer encoding")
        host = headers.get("host", "")
        if self._hosts is not None and _host_name(host) not in self._hosts:
            return refusal(HTTPStatus.FORBIDDEN, "invalid host name for this server")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return refusal(HTTPStatus.NOT_FOUND, "open the address that `coremlscope serve` printed")
        # Behind a proxy the page has https.
        own_pages = (f"http://{host}", f"https://{host}")
        if method not in _READING and headers.get("origin", own_pages[0]) not in own_pages:
            return refusal(HTTPStatus.FORBIDDEN, "the request comes from another page")
        return None


def _host_name(header: str) -> str:
    """Returns the name in a `Host` header, without the port."""
    name, _, port = header.rpartition(":")
    return (name if name and port.isdecimal() else header).strip("[]").lower()
