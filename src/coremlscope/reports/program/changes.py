"""Two recordings of a program next to each other: mistakes that are gone, counts, means and totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coremlscope.base.escaping import markdown_text as cell
from coremlscope.base.units import format_duration
from coremlscope.reports.csv import render_columns
from coremlscope.reports.markdown.report import table
from coremlscope.reports.program.terminal import saving
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import plural
from coremlscope.results.recording_changes import EventChange, RecordingChanges
from coremlscope.results.trace import Mistake

__all__ = ["render_changes", "render_changes_csv", "render_changes_markdown"]

_TITLES = ("model", "event", "count", "", "mean", "", "total", "", "change")
_REMARK = "measured; before and after"


def render_changes(changes: RecordingChanges, *, width: int = 100, color: bool = False) -> str:
    """Renders two recordings for the console."""
    screen = Screen(width, color)
    screen.title(_title(changes), f"  {_lengths(changes)}")
    for heading, mark, mistakes in _mistakes(changes):
        screen.heading(heading)
        for mistake in mistakes:
            screen.bullet(mark, f"{mistake.title}. {mistake.evidence}", saving(mistake).strip())
    screen.heading("Totals", _REMARK)
    columns = [
        Column("model", most=max(width // 4, 12), style="cyan"),
        Column("event"),
        *(Column(title, is_number=True) for title in _TITLES[2:]),
    ]
    screen.table(columns, [_cells(row) for row in changes.events])
    return screen.text


def render_changes_markdown(changes: RecordingChanges) -> str:
    """Renders two recordings as Markdown."""
    blocks = [f"## {cell(_title(changes))}, {_lengths(changes)}"]
    for heading, _, mistakes in _mistakes(changes):
        listed = [f"- **{cell(one.title)}**. {cell(one.evidence)}{saving(one)}" for one in mistakes]
        blocks += [f"### {heading}", "\n".join(listed)]
    titles = [title if index < 2 else f"{title}>" for index, title in enumerate(_TITLES)]
    blocks += [f"### Totals ({_REMARK})", table(titles, [_cells(row) for row in changes.events])]
    return "\n\n".join(filter(None, blocks)) + "\n"


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


def _title(changes: RecordingChanges) -> str:
    return " → ".join(changes.labels)


def _lengths(changes: RecordingChanges) -> str:
    return " → ".join(map(format_duration, changes.durations_s))


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
    return (
        row.model or "–",
        row.kind,
        *(f"{count:,}" if count or is_known else "–" for count in row.counts),
        *("–" if mean is None else format_duration(mean) for mean in row.means_s),
        *(
            format_duration(total) if count else "–"
            for total, count in zip(row.totals_s, row.counts, strict=True)
        ),
        change,
    )
