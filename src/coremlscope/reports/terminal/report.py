"""Tables for people at a terminal."""

from __future__ import annotations

from coremlscope.reports.terminal.model import show_summary
from coremlscope.reports.terminal.profile import show_profile
from coremlscope.reports.terminal.screen import Screen
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile

__all__ = ["render_console"]

_DEFAULT_WIDTH = 100


def render_console(
    subject: Profile | ModelSummary, *, width: int = _DEFAULT_WIDTH, color: bool = False
) -> str:
    """A report as text of `width` columns, with ANSI colours where `color` is set."""
    screen = Screen(width, color)
    if isinstance(subject, ModelSummary):
        show_summary(screen, subject)
    else:
        show_profile(screen, subject)
    return screen.text
