"""Sweeps and queries of their results, for the console."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from coremlscope.render.terminal.screen import Column, Screen
from coremlscope.render.words import plural
from coremlscope.results.sweep import SweepSummary
from coremlscope.units import format_duration

__all__ = ["render_columns", "render_summary", "render_tables"]

#: Failures that are listed.
_LISTED = 20
_WIDEST = 60


def render_summary(summary: SweepSummary, *, width: int, color: bool) -> str:
    """Renders what a sweep did; failures follow in a list of their own."""
    screen = Screen(width, color)
    rows = [("results", f"{plural(summary.made, 'result')} in {format_duration(summary.seconds)}")]
    if summary.known:
        rows.append(("existed", f"{plural(summary.known, 'result')}, not made again"))
    if summary.imported:
        rows.append(("imported", f"{plural(summary.imported, 'result')} of saved profiles"))
    if summary.failures:
        rows.append(("failed", plural(summary.failed, "result")))
    if summary.known_failures:
        failed = plural(summary.known_failures, "result")
        rows.append(("failed before", f"{failed}, not tried again; --retry makes them again"))
    screen.pairs([*rows, ("folder", summary.folder)])
    if summary.failures:
        screen.heading("Failures")
        for one in summary.failures[:_LISTED]:
            count = plural(one.results, "result")
            screen.bullet("✗", f"{one.model}: {one.reason} ({count})", one.hint, "red")
        if len(summary.failures) > _LISTED:
            screen.line(f"{len(summary.failures) - _LISTED} more are in the table failures", "dim")
    if summary.interrupted:
        screen.line()
        screen.line("Interrupted: the same command continues with the rest.")
    if summary.made or summary.known or summary.imported:
        folder = shlex.quote(summary.folder)
        screen.line(f"more: `coremlscope query --from {folder}`; with -o sweep.html as a page", "dim")
    return screen.text


def render_columns(columns: Mapping[str, Sequence[Any]], *, width: int, color: bool) -> str:
    """Renders the result of a query.

    Args:
        columns: The values by the name of their column.
        width: Columns of the terminal.
        color: Whether to use colour.
    """
    screen = Screen(width, color)
    titles = [
        Column(name, is_number=any(map(_is_number, values)), most=_WIDEST) for name, values in columns.items()
    ]
    rows = [[_cell(value) for value in row] for row in zip(*columns.values(), strict=True)]
    screen.table(titles, rows, indent=0)
    screen.line(plural(len(rows), "row"), "dim")
    return screen.text


def render_tables(
    tables: Sequence[tuple[str, str]], columns: Sequence[tuple[str, str, str]], *, width: int, color: bool
) -> str:
    """Renders the tables that queries read, and their columns.

    Args:
        tables: The name of each table, and what it holds.
        columns: The name of each column, its type, and what it means.
        width: Columns of the terminal.
        color: Whether to use colour.
    """
    screen = Screen(width, color)
    screen.title("Tables")
    screen.pairs(tables)
    screen.heading("Columns")
    screen.table((Column("column"), Column("type"), Column("meaning")), columns)
    return screen.text


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):  # a map
        return ", ".join(f"{key}={_cell(one)}" for key, one in value)
    return str(value)
