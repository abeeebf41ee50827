"""From a result to text: one explicit table of renderers, chosen by the suffix of a file.

Importing this package is cheap; rich is loaded when something is drawn for the console.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.errors import UsageError
from coremlscope.render.console import render_console
from coremlscope.render.csv import render_csv
from coremlscope.render.html import render_html
from coremlscope.render.json import render_json
from coremlscope.render.markdown import render_markdown

if TYPE_CHECKING:
    from coremlscope.profiling.profile import Profile
    from coremlscope.profiling.summary import ModelSummary

__all__ = ["RENDERERS", "Renderer", "find_renderer", "render_console", "render_json"]


@dataclass(frozen=True, slots=True)
class Renderer:
    """A format of reports.

    Attributes:
        suffix: What the names of its files end with.
        doc: What it is good for, in a few words.
        render: Returns the text of a report.
    """

    suffix: str
    doc: str
    render: Callable[[Profile | ModelSummary], str]


RENDERERS: tuple[Renderer, ...] = (
    Renderer(".html", "one page that loads nothing, to look at and to send on", render_html),
    Renderer(".json", "everything, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_markdown),
    Renderer(".csv", "one row an operation, for spreadsheets", render_csv),
    Renderer(".txt", "the tables of the console", render_console),
)


def find_renderer(path: Path) -> Renderer:
    """The renderer for a file, by its suffix.

    Raises:
        UsageError: No format has this suffix.
    """
    suffix = path.suffix.lower()
    for renderer in RENDERERS:
        if renderer.suffix == suffix:
            return renderer
    known = [renderer.suffix for renderer in RENDERERS]
    near = difflib.get_close_matches(suffix, known, n=1)
    hint = f"did you mean {path.with_suffix(near[0])}?" if near else f"use one of {', '.join(known)}"
    what = (
        f"no report format has the suffix {suffix!r}"
        if suffix
        else f"{path} has no suffix to tell the format"
    )
    raise UsageError(what, hint)
