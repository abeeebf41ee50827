"""The cache of compiled functions, for the console."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from coremlscope.base.units import format_bytes
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.runtime.execution.cache import CacheEntry

__all__ = ["render_cache"]


def render_cache(
    folder: Path,
    limit_bytes: int,
    entries: Sequence[CacheEntry],
    removed: int | None,
    *,
    width: int = 100,
    color: bool = False,
) -> str:
    """Renders the place, the limit and the entries of a cache.

    Args:
        folder: The folder of the cache.
        limit_bytes: The limit of its size.
        entries: The entries, the most recently used first.
        removed: The number of entries that were just removed; None if the cache was not cleared.
        width: The width of the terminal in characters.
        color: Uses colours.
    """
    screen = Screen(width, color)
    screen.title("Cache of compiled functions")
    total = sum(entry.size_bytes for entry in entries)
    pairs = [
        ("folder", str(folder)),
        ("entries", str(len(entries))),
        ("size", f"{format_bytes(total)} of at most {format_bytes(limit_bytes)}"),
    ]
    screen.pairs(pairs if removed is None else [*pairs, ("removed", str(removed))])
    if entries:
        screen.line()
        columns = [
            Column("model", style="cyan"),
            Column("size", is_number=True),
            Column("last used (UTC)"),
        ]
        screen.table(columns, [(e.name or e.key, format_bytes(e.size_bytes), _time(e.used)) for e in entries])
    return screen.text


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M")
