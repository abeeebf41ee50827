"""The agreement of our plans with Core ML's, for the console."""

from __future__ import annotations

from coremlscope.reports.agreement import (
    DISAGREEMENT_TITLES,
    agreement_line,
    agreement_name,
    disagreement_rows,
)
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.results.profile import Profile

__all__ = ["render_agreements", "show_agreements"]

_LISTED = 10


def render_agreements(
    profile: Profile, *, width: int = 100, color: bool = False, list_all: bool = False
) -> str:
    """The agreements of a profile as text.

    Args:
        profile: The profile.
        width: Columns.
        color: Whether to use ANSI colours.
        list_all: Lists every operation on different units, however many there are.
    """
    screen = Screen(width, color)
    show_agreements(screen, profile, list_all=list_all)
    return screen.text


def show_agreements(screen: Screen, profile: Profile, *, list_all: bool = False) -> None:
    """Prints how far the plans by rules agree with Core ML's, and where they do not."""
    titles = [title.removesuffix(">") for title in DISAGREEMENT_TITLES]
    name, kind, *others, why = titles
    columns = [
        Column(name, most=max(screen.width // 4, 12)),
        Column(kind, style="cyan", most=20),
        *(Column(title, is_number=title == "cost share") for title in others),
    ]
    for found in profile.agreements:
        remark = f"our plan beside Core ML's on {agreement_name(profile, found)}"
        screen.heading("Agreement with Core ML", remark)
        screen.line(agreement_line(found), indent=2)
        differing = found.disagreements if list_all else found.disagreements[:_LISTED]
        rows = disagreement_rows(differing)
        if rows and any(row[-1] for row in rows):
            screen.table([*columns, Column(why)], rows)
        elif rows:
            screen.table(columns, [row[:-1] for row in rows])
        if len(rows) < len(found.disagreements):
            more = len(found.disagreements) - len(rows)
            screen.line(f"and {more} more: --share FILE writes all of them", "dim", indent=2)
