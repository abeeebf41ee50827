"""The cache of compiled functions."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path

from coremlscope.base.units import format_bytes
from coremlscope.reports.document import Block, Column, Facts, Table, Title, numbers
from coremlscope.runtime.execution.cache import CacheEntry


def cache_document(
    folder: Path, limit_bytes: int, entries: Sequence[CacheEntry], removed: int | None
) -> Iterator[Block]:
    """Yields the place, the limit and the entries of a cache.

    Args:
        folder: The folder of the cache.
        limit_bytes: The limit of its size.
        entries: The entries, the most recently used first.
        removed: The number of entries that were just removed; None if the cache was not cleared.
    """
    total = sum(entry.size_bytes for entry in entries)
    yield Title("Cache of compiled functions")
    yield Facts(
        [
            ("folder", str(folder)),
            ("entries", str(len(entries))),
            ("size", f"{format_bytes(total)} of at most {format_bytes(limit_bytes)}"),
            ("removed", "" if removed is None else str(removed)),
        ]
    )
    if entries:
        rows = [(e.name or e.key, format_bytes(e.size_bytes), _time(e.used)) for e in entries]
        yield Table((Column("model", style="cyan"), *numbers("size"), Column("last used (UTC)")), rows)


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M")
