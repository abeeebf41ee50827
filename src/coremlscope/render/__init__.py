"""From a result to text: one explicit table of renderers, chosen by the suffix of a file.

Importing this package is cheap; rich is loaded when something is drawn for the console.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from coremlscope.errors import UsageError
from coremlscope.render.csv import render_csv
from coremlscope.render.json import render_json
from coremlscope.render.markdown.comparison import render_markdown_comparison
from coremlscope.render.markdown.matrix import render_markdown_matrix
from coremlscope.render.markdown.report import render_markdown
from coremlscope.render.page import render_html, render_html_comparison
from coremlscope.render.terminal.comparison import render_comparison
from coremlscope.render.terminal.matrix import render_matrix
from coremlscope.render.terminal.report import render_console
from coremlscope.render.trace import render_trace

if TYPE_CHECKING:
    from coremlscope.batch import Matrix
    from coremlscope.comparison.profiles import Comparison
    from coremlscope.describe.model import ModelSummary
    from coremlscope.results.profile import Profile

__all__ = [
    "COMPARISON_RENDERERS",
    "MATRIX_RENDERERS",
    "RENDERERS",
    "SUMMARY_RENDERERS",
    "Renderer",
    "find_renderer",
    "render_comparison",
    "render_console",
    "render_json",
    "render_matrix",
]

Subject = TypeVar("Subject", contravariant=True)


@dataclass(frozen=True, slots=True)
class Renderer(Generic[Subject]):
    """A format of reports.

    Attributes:
        suffix: What the names of its files end with.
        doc: What it is good for, in a few words.
        render: Returns the text of a report.
    """

    suffix: str
    doc: str
    render: Callable[[Subject], str]

    def suits(self, path: Path) -> bool:
        """Whether a file's name asks for this format. `.trace.json` takes `trace.json` too."""
        name = path.name.lower()
        if self.suffix.count(".") > 1:
            return name.endswith(self.suffix) or name == self.suffix[1:]
        return path.suffix.lower() == self.suffix


#: Formats of what a model is.
SUMMARY_RENDERERS: tuple[Renderer[Profile | ModelSummary], ...] = (
    Renderer(".html", "one page that loads nothing, to look at and to send on", render_html),
    Renderer(".json", "everything, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_markdown),
    Renderer(".csv", "one row an operation, for spreadsheets", render_csv),
    Renderer(".txt", "the tables of the console", render_console),
)

#: Formats of profiles. Longer suffixes stand before those that they end with.
RENDERERS: tuple[Renderer[Profile], ...] = (
    Renderer(".trace.json", "a trace for Perfetto (ui.perfetto.dev)", render_trace),
    *SUMMARY_RENDERERS,
)

#: Formats of comparisons.
COMPARISON_RENDERERS: tuple[Renderer[Comparison], ...] = (
    Renderer(".html", "one page that loads nothing, to look at and to send on", render_html_comparison),
    Renderer(".json", "everything, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_markdown_comparison),
    Renderer(".txt", "the tables of the console", render_comparison),
)


#: Formats of matrices.
MATRIX_RENDERERS: tuple[Renderer[Matrix], ...] = (
    Renderer(".json", "everything, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_markdown_matrix),
    Renderer(".txt", "the tables of the console", render_matrix),
)


def find_renderer(path: Path, renderers: Sequence[Renderer[Any]] = RENDERERS) -> Renderer[Any]:
    """The renderer for a file, by its suffix.

    Raises:
        UsageError: No format has this suffix.
    """
    for renderer in renderers:
        if renderer.suits(path):
            return renderer
    suffix = path.suffix.lower()
    known = [renderer.suffix for renderer in renderers]
    near = difflib.get_close_matches(suffix, known, n=1)
    hint = f"did you mean {path.with_suffix(near[0])}?" if near else f"use one of {', '.join(known)}"
    what = (
        f"no report format has the suffix {suffix!r}"
        if suffix
        else f"{path} has no suffix to tell the format"
    )
    raise UsageError(what, hint)
