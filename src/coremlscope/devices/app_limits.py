"""The memory that an app may use on some devices, as published measurements show it."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import msgspec
from msgspec.structs import replace


class AppLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The memory at which a system ends an app, without the entitlement for more.

    Attributes:
        device: The device.
        limit_bytes: The bytes, as somebody measured them on this device, or on one with as much memory; 0 in
            the table where only the memory is published.
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
    """Returns what is published: limits, or the memory of a device."""
    text = Path(__file__).with_name("app_limits.csv").read_text("utf-8")
    return tuple(
        AppLimit(
            device=row["device"],
            limit_bytes=int(row["limit_bytes"] or 0),
            memory_bytes=int(row["memory_bytes"] or 0),
            os=row["os"],
            source=row["source"],
            url=row["url"],
        )
        for row in csv.DictReader(text.splitlines())
    )


@functools.cache
def app_limit(device: str) -> AppLimit | None:
    """Returns the limit of a device by its name; None where nothing is published, and for chips.

    Where only the memory is published, it is the largest limit that was measured on one with as much memory.
    """
    known = next((limit for limit in load_app_limits() if limit.device == device), None)
    if known is None or known.limit_bytes:
        return known
    gigabytes = _gigabytes(known)
    alike = [one for one in load_app_limits() if one.limit_bytes and _gigabytes(one) == gigabytes]
    if not alike:
        return None
    most = max(alike, key=lambda one: one.limit_bytes)
    return replace(
        known,
        limit_bytes=most.limit_bytes,
        os=most.os,
        source=f"that of an {most.device}, which has {gigabytes} GB too ({most.source}; {known.source})",
    )


def _gigabytes(limit: AppLimit) -> int:
    """Returns the memory that a device was sold with; its system sees a little less."""
    return round(limit.memory_bytes / 2**30)
