"""Limits of requests and connections."""

from __future__ import annotations

import msgspec


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of requests and connections.

    Attributes:
        upload_bytes: Maximum size of an uploaded file.
        uploads: Maximum number of files received concurrently.
        connections: Maximum number of open connections; requests beyond it are refused.
        watchers: Maximum number of streams of events.
        head_bytes: Maximum size of the request line and the headers.
    """

    upload_bytes: int = 1 << 30
    uploads: int = 8
    connections: int = 512
    watchers: int = 32
    head_bytes: int = 16 << 10
