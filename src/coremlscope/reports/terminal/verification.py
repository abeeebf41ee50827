"""Verifications for the console."""

from __future__ import annotations

from coremlscope.reports.document import Column
from coremlscope.reports.terminal.screen import Screen
from coremlscope.reports.verification import (
    OUTPUT_TITLES,
    PAIR_TITLES,
    fault_lines,
    fix_lines,
    headline,
    output_rows,
    pair_rows,
    pairing_line,
    parted_pairs,
)
from coremlscope.reports.words import FINDING_MARKS
from coremlscope.results.verification import Verification

__all__ = ["render_verification"]

#: Pairs that are printed without `--pairs`.
_SHOWN = 8


def render_verification(
    found: Verification, *, width: int = 100, color: bool = False, has_pairs: bool = False
) -> str:
    """A verification as text.

    Args:
        found: The verification.
        width: Columns.
        color: Whether to use ANSI colours.
        has_pairs: Whether to list all paired values, instead of those around the first fault.
    """
    screen = Screen(width, color)
    screen.line(headline(found), "bold cyan")
    screen.pairs(
        [
            ("model", f"{found.model}, {found.function}" if found.model else found.function),
            ("reference", found.reference),
            ("inputs", "; ".join(found.inputs)),
        ]
    )
    screen.heading("Outputs", "beside those of the reference")
    screen.table(_columns(OUTPUT_TITLES, 4), output_rows(found))
    if found.faults:
        screen.heading("The first operation that differs")
        for fault in found.faults:
            screen.bullet("✗", *fault_lines(fault), style="red")
    if found.fixes:
        screen.heading("Changes that were tried")
        for fix in found.fixes:
            screen.bullet("✓" if fix.works else "·", *fix_lines(fix), style="green" if fix.works else "")
    _show_pairs(screen, found, has_pairs)
    if found.findings:
        screen.line()
        for finding in found.findings:
            screen.bullet(FINDING_MARKS[finding.severity], finding.text, finding.hint)
    return screen.text


def _show_pairs(screen: Screen, found: Verification, has_pairs: bool) -> None:
    pairs = found.pairs if has_pairs else parted_pairs(found, _SHOWN) if found.faults else ()
    screen.heading("Pairs", pairing_line(found))
    if pairs:
        screen.table(_columns(PAIR_TITLES, 4), pair_rows(found, pairs))
    elif not has_pairs:
        screen.line("--pairs lists them", "dim", indent=2)


def _columns(titles: tuple[str, ...], texts: int) -> list[Column]:
    """Returns the columns of a table whose first ones are texts, and the others numbers."""
    last = len(titles) - 1
    return [
        Column(
            title, is_number=place >= texts and (place < last or title != ""), most=28 if place < 3 else None
        )
        for place, title in enumerate(titles)
    ]
