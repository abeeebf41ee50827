"""What a sweep did."""

from __future__ import annotations

from collections.abc import Iterator

from coremlscope.base.units import format_duration
from coremlscope.reports.document import Block, Facts, Heading, Hint, Item, Text
from coremlscope.reports.words import plural
from coremlscope.results.sweep import SweepSummary

#: Failures that are listed.
_LISTED = 20


def sweep_document(summary: SweepSummary) -> Iterator[Block]:
    """Yields what a sweep did; failures follow in a list of their own."""

    def results(count: int, more: str = "") -> str:
        return f"{plural(count, 'result')}{more}" if count else ""

    again = ", not tried again; --retry makes them again"
    yield Facts(
        [
            ("results", f"{plural(summary.made, 'result')} in {format_duration(summary.seconds)}"),
            ("existed", results(summary.known, ", not made again")),
            ("imported", results(summary.imported, " of saved profiles")),
            ("failed", results(summary.failed if summary.failures else 0)),
            ("failed before", results(summary.known_failures, again)),
            ("folder", summary.folder),
        ]
    )
    if summary.failures:
        yield Heading("Failures")
    for one in summary.failures[:_LISTED]:
        text = f"{one.model}: {one.reason} ({plural(one.results, 'result')})"
        yield Item(text, one.hint, "✗", "error")
    if len(summary.failures) > _LISTED:
        yield Text(f"{len(summary.failures) - _LISTED} more: --json lists all", indent=0)
    if summary.interrupted:
        yield Text("Interrupted: the same command continues with the rest.", "", 0)
    if summary.made or summary.known or summary.imported:
        yield Hint("tables: estimates.parquet, plans.parquet, times.parquet; page: results.html")
