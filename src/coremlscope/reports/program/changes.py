"""Two recordings of a program next to each other: mistakes that are gone, counts, means and totals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from coremlscope.base.units import format_duration
from coremlscope.reports.csv import render_columns
from coremlscope.reports.document import (
    Block,
    Column,
    Heading,
    Item,
    Style,
    Table,
    Title,
    labels,
)
from coremlscope.reports.program.report import cost_of
from coremlscope.reports.words import plural
from coremlscope.results.recording_changes import EventChange, MedianChange, RecordingChanges
from coremlscope.results.trace import Mistake


def changes_document(changes: RecordingChanges) -> Iterator[Block]:
    """Yields two recordings next to each other."""
    yield Title(" → ".join(changes.labels), " → ".join(map(format_duration, changes.durations_s)))
    if changes.medians:
        yield Heading("Times", "over all models; of each the median, with the 95 % interval of the ratio")
    for change in changes.medians:
        yield Item(_sentence(change), "", *_MARKS[change.verdict])
    for heading, mark, mistakes in _mistakes(changes):
        yield Heading(heading)
        for mistake in mistakes:
            yield Item(f"{mistake.title}. {mistake.evidence}", cost_of(mistake).strip(), mark)
    yield Heading("Totals", "measured; before and after")
    columns = (
        labels("model", least=12),
        Column("event", rank=-1),
        Column("count", is_number=True, rank=2),
        Column("mean", is_number=True, rank=1),
        Column("total", is_number=True),
        Column("change", is_number=True, rank=-1),
    )
    yield Table(columns, [_cells(row) for row in changes.events])


_NOUNS = {"predict": "predictions", "load": "loads"}
_MARKS: Mapping[str, tuple[str, Style]] = {
    "faster": ("✓", ""),
    "slower": ("!", "warning"),
    "unclear": ("·", ""),
}


def _sentence(change: MedianChange) -> str:
    known = change.low is not None and change.high is not None
    interval = f", {change.low:.2f} to {change.high:.2f}" if known else "; too few for an interval"
    return (
        f"{_NOUNS[change.kind]}: {_pair(change.counts, '{:,}'.format)},"
        f" {_pair(change.totals_s, format_duration)} in all; each {change.verdict},"
        f" {_pair(change.medians_s, format_duration)} (× {change.ratio:.2f}{interval})"
    )


def _pair(values: Sequence[float | None], text: Callable[[float], str]) -> str:
    return " → ".join("–" if value is None else text(value) for value in values)


def render_changes_csv(changes: RecordingChanges) -> str:
    """Renders one row for each model and kind of event; times are in seconds."""
    rows = changes.events
    return render_columns(
        {
            "model": [row.model for row in rows],
            "event": [row.kind for row in rows],
            **{f"count_{side}": [row.counts[at] for row in rows] for at, side in _SIDES},
            **{f"mean_{side}_s": [row.means_s[at] for row in rows] for at, side in _SIDES},
            **{f"total_{side}_s": [row.totals_s[at] for row in rows] for at, side in _SIDES},
        }
    )


_SIDES = ((0, "before"), (1, "after"))


def _mistakes(changes: RecordingChanges) -> Iterator[tuple[str, str, Sequence[Mistake]]]:
    """A heading, the mark of its mistakes, and these; what was not searched is not called gone."""
    if changes.gone:
        yield f"{plural(len(changes.gone), 'mistake')} gone", "✓", changes.gone
    if changes.left:
        yield f"{plural(len(changes.left), 'mistake')} left", "!", changes.left
    if changes.new:
        yield f"{plural(len(changes.new), 'new mistake')}", "!", changes.new
    if changes.unsearched:
        found = plural(len(changes.unsearched), "mistake")
        yield f"{found} in one recording, which the other one cannot show", "·", changes.unsearched
    if not changes.searched:
        yield "Not searched for mistakes: one of them has no loads and no predictions", "", ()
    elif not (changes.gone or changes.left or changes.new or changes.unsearched):
        yield "No mistakes found in either", "", ()


def _cells(row: EventChange) -> tuple[str, ...]:
    before, after = row.totals_s
    # A recording without intervals of a unit does not say that it was idle.
    is_known = all(row.counts) or not row.kind.endswith(" busy")
    change = f"{100 * (after / before - 1):+.0f} %" if before and is_known else ""
    counts = [count if count or is_known else None for count in row.counts]
    totals = [total if count else None for total, count in zip(row.totals_s, row.counts, strict=True)]
    return (
        row.model or "–",
        row.kind,
        _pair(counts, "{:,}".format),
        _pair(row.means_s, format_duration),
        _pair(totals, format_duration),
        change,
    )
