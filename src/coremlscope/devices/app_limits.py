"""The memory that an app may use on some devices, as published measurements show it."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources

__all__ = ["AppLimit", "app_limit", "load_app_limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppLimit:
    """The memory at which a system ends an app, as somebody measured it.

    Attributes:
        device: The device.
        limit_bytes: The bytes.
        memory_bytes: Bytes of the device's memory; 0 if the source does not say.
        os: The system on which it was measured; empty if the source does not say.
        source: Who published it, and how it was measured.
        url: Where.
    """

    device: str
    limit_bytes: int
    memory_bytes: int = 0
    os: str = ""
    source: str
    url: str


@functools.cache
def load_app_limits() -> tuple[AppLimit, ...]:
    """Returns the published limits."""
    text = (resources.files("coremlscope.devices") / "app_limits.csv").read_text("utf-8")
    return tuple(
        AppLimit(
            device=row["device"],
            limit_bytes=int(row["limit_bytes"]),
            memory_bytes=int(row["memory_bytes"] or 0),
            os=row["os"],
            source=row["source"],
            url=row["url"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def app_limit(device: str) -> AppLimit | None:
    """Returns the limit of a device by its name; None where none is published, and for chips."""
    return next((limit for limit in load_app_limits() if limit.device == device), None)
