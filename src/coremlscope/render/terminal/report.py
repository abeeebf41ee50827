"""Tables for people at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coremlscope.describe.model import ModelSummary
    from coremlscope.results.profile import Profile

__all__ = ["render_console"]

_DEFAULT_WIDTH = 100


def render_console(
    subject: Profile | ModelSummary, *, width: int = _DEFAULT_WIDTH, color: bool = False
) -> str:
    """A report as text of `width` columns, with ANSI colours where `color` is set."""
    from coremlscope.describe.model import ModelSummary
    from coremlscope.render.terminal.model import show_summary
    from coremlscope.render.terminal.page import Page

    page = Page(width, color)
    if isinstance(subject, ModelSummary):
        show_summary(page, subject)
    else:
        from coremlscope.render.terminal.profile import show_profile

        show_profile(page, subject)
    return page.text
