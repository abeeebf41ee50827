"""Limits of requests and connections."""

from __future__ import annotations

import msgspec


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of requests and connections.

    Attributes:
        upload_bytes: Maximum size of a model that is sent.
        uploads: Maximum number of models received concurrently.
        works: Maximum number of requests for work that wait or run; one runs at a time.
        connections: Maximum number of open connections; requests beyond it are refused.
        head_bytes: Maximum size of the request line and the headers.
        body_s: Seconds that every body may take, and more by `body_Bps`.
        body_Bps: Bytes per second at which a body must come beyond that.
    """

    upload_bytes: int = 1 << 30
    uploads: int = 8
    works: int = 8
    connections: int = 512
    head_bytes: int = 16 << 10
    body_s: float = 20.0
    body_Bps: int = 1 << 18  # noqa: N815
