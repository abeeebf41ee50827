"""Sweeps for the console."""

from __future__ import annotations

from coremlscope.base.units import format_duration
from coremlscope.reports.terminal.screen import Screen
from coremlscope.reports.words import plural
from coremlscope.results.sweep import SweepSummary

__all__ = ["render_summary"]

#: Failures that are listed.
_LISTED = 20


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
            screen.line(f"{len(summary.failures) - _LISTED} more: --json lists all", "dim")
    if summary.interrupted:
        screen.line()
        screen.line("Interrupted: the same command continues with the rest.")
    if summary.made or summary.known or summary.imported:
        screen.line("tables: estimates.parquet, plans.parquet, times.parquet; page: results.html", "dim")
    return screen.text
