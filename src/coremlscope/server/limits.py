"""Limits of requests and connections."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ServerLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits of requests and connections.

    Attributes:
        upload_bytes: Maximum size of an uploaded file.
        uploads: Maximum number of files received concurrently.
        connections: Maximum number of open connections. Beyond it the oldest one that has no request yet is
            closed.
        watchers: Maximum number of streams of events.
        requests: Maximum number of other requests answered concurrently; further ones wait.
        head_bytes: Maximum size of the request line and the headers.
        head_s: Seconds until the request line and the headers must be complete.
        window_s: Seconds over which the speed of a transfer is judged.
        slowest_Bps: Minimum speed of uploads and of responses, in bytes per second; slower connections are
            closed.
    """

    upload_bytes: int = 1 << 30
    uploads: int = 8
    connections: int = 512
    watchers: int = 32
    requests: int = 16
    head_bytes: int = 16 << 10
    head_s: float = 10.0
    window_s: float = 20.0
    slowest_Bps: int = 8 << 10  # noqa: N815
