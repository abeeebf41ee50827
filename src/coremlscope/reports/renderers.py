"""One table of the formats of each kind of result, chosen by a file's suffix.

The table names functions and imports none: help texts list its suffixes, and only what renders a file is
imported.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.writing import write_file

if TYPE_CHECKING:
    from coremlscope.reports.document import Document

__all__ = [
    "CHANGES_RENDERERS",
    "COMPARISON_RENDERERS",
    "DOCTOR_RENDERERS",
    "EXPLANATION_RENDERERS",
    "GATE_RENDERERS",
    "PROFILES_RENDERERS",
    "RENDERERS",
    "SUMMARY_RENDERERS",
    "SWEEP_RENDERERS",
    "TRACE_RENDERERS",
    "VARIANT_RENDERERS",
    "VERIFICATION_RENDERERS",
    "Renderer",
    "describe_formats",
    "document_of",
    "find_renderer",
    "list_formats",
    "notebook_card",
    "renderers_of",
    "to_dataframe",
    "write_report",
]


class Renderer(msgspec.Struct, frozen=True):
    """A format of reports.

    Attributes:
        suffix: The suffix of its files.
        doc: A short description of its purpose.
        function: The function that returns its text, as `module:name` below this package.
        document: That from a result to the document that `function` writes; empty where `function` takes the
            result.
    """

    suffix: str
    doc: str
    function: str
    document: str = ""

    def render(self, subject: Any) -> str:
        """Returns the text of a report."""
        text: str = _find(self.function)(_find(self.document)(subject) if self.document else subject)
        return text

    def suits(self, path: Path) -> bool:
        """Returns whether a file's name selects this format; `.trace.json` also matches `trace.json`."""
        name = path.name.lower()
        if self.suffix.count(".") > 1:
            return name.endswith(self.suffix) or name == self.suffix[1:]
        return path.suffix.lower() == self.suffix


def _find(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(f"coremlscope.reports.{module}"), function)
    return found


#: What writes documents, whatever the result.
_WRITERS = (
    (".md", "Markdown, for a pull request", "markdown.writer:write_markdown"),
    (".txt", "the tables of the console", "terminal.writer:write_terminal"),
)


def _formats(
    document: str,
    *,
    page: str = "",
    json: str = "json:render_json",
    csv: tuple[str, str] | None = None,
    others: Iterable[Renderer] = (),
) -> tuple[Renderer, ...]:
    """Returns the formats of a kind of result; one without a page of its own has its document as a page."""

    def every() -> Iterator[Renderer]:
        writer = (page,) if page else ("document_page:write_page", document)
        yield Renderer(".html", "one self-contained page, to view and to send", *writer)
        yield Renderer(".json", "the whole result, for programs", json)
        yield from (Renderer(*writer, document) for writer in _WRITERS)
        if csv is not None:
            yield Renderer(".csv", f"{csv[0]}, for spreadsheets", csv[1])
        yield from others

    return tuple(every())


#: Formats of model descriptions, and of profiles.
SUMMARY_RENDERERS = _formats(
    "model:model_document", page="page:render_html", csv=("one row an operation", "csv:render_csv")
)
RENDERERS = _formats(
    "profile:profile_document",
    page="page:render_html",
    csv=("one row an operation", "csv:render_csv"),
    others=[Renderer(".trace.json", "a trace for Perfetto (ui.perfetto.dev)", "trace:render_trace")],
)
#: Formats of comparisons, and of several profiles.
COMPARISON_RENDERERS = _formats(
    "comparison:comparison_document",
    page="page:render_html",
    csv=("one row a figure", "csv:render_compared_csv"),
)
PROFILES_RENDERERS = _formats(
    "side_by_side:side_by_side_document",
    page="page:render_html",
    csv=("one row a figure", "csv:render_figures_csv"),
)
#: Formats of recorded programs.
TRACE_RENDERERS = _formats(
    "program.report:program_document",
    page="page:render_html_trace",
    csv=("one row a kind of event", "program.csv:render_program_csv"),
    others=[
        Renderer(
            ".trace.json",
            "a trace for Perfetto (ui.perfetto.dev)",
            "program.perfetto:render_program_perfetto",
        )
    ],
)
#: Formats of two recordings next to each other.
CHANGES_RENDERERS = _formats(
    "program.changes:changes_document", csv=("one row a kind of event", "program.changes:render_changes_csv")
)
#: Formats of variants of a model.
VARIANT_RENDERERS = _formats(
    "variants:variants_document",
    page="page:render_html_variants",
    csv=("one row a variant and device", "csv:render_variants_csv"),
)
#: Formats of gates' results.
GATE_RENDERERS = _formats(
    "gate:gate_document",
    others=[
        Renderer(".sarif", "SARIF 2.1.0, for code scanning", "gate:render_sarif"),
        Renderer(".xml", "JUnit XML, for reports of tests", "gate:render_junit"),
    ],
)
#: Formats of explanations of operations.
EXPLANATION_RENDERERS = _formats("explanation:explanations_document")
#: Formats of diagnoses of a machine or of files.
DOCTOR_RENDERERS = _formats("doctor:doctor_document", json="doctor:render_doctor_json")
#: Formats of verifications.
VERIFICATION_RENDERERS = _formats("verification:verification_document")
#: Formats of tables of results of sweeps.
SWEEP_RENDERERS = (
    Renderer(".html", "one self-contained page, to view and to send", "page:render_html_results"),
)

#: The formats of results by the names of their types.
_BY_TYPE = {
    "Profile": RENDERERS,
    "ModelSummary": SUMMARY_RENDERERS,
    "Comparison": COMPARISON_RENDERERS,
    "Trace": TRACE_RENDERERS,
    "RecordingChanges": CHANGES_RENDERERS,
    "VariantReport": VARIANT_RENDERERS,
    "GateReport": GATE_RENDERERS,
    "Explanations": EXPLANATION_RENDERERS,
    "Verification": VERIFICATION_RENDERERS,
    "ResultTable": SWEEP_RENDERERS,
}
#: The function that returns the columns of a result, by the names of their types.
_COLUMNS = {
    "Profile": "columns:op_columns",
    "ModelSummary": "columns:listed_columns",
    "Comparison": "columns:change_columns",
    "Trace": "program.csv:total_columns",
    "VariantReport": "variants:variant_columns",
}


def renderers_of(result: Any) -> Sequence[Renderer]:
    """Returns the formats of a result; those of several profiles for a sequence of them."""
    return _BY_TYPE.get(type(result).__name__, PROFILES_RENDERERS)


def list_formats(renderers: Sequence[Renderer]) -> str:
    """Lists the suffixes of formats for a help text: `.html, .json, .md or .txt`."""
    *first, last = (renderer.suffix for renderer in renderers)
    return f"{', '.join(first)} or {last}" if first else last


def describe_formats(renderers: Sequence[Renderer]) -> str:
    """Says how reports in other formats than the console's are written: `-o report.html, .json, .md`."""
    return "-o report" + ", ".join(renderer.suffix for renderer in renderers if renderer.suffix != ".txt")


def write_report(
    result: Any, path: str | os.PathLike[str], renderers: Sequence[Renderer] | None = None
) -> None:
    """Writes a report; the suffix of the path selects the format.

    Args:
        result: The result.
        path: The file.
        renderers: The formats; None for those of the result.

    Raises:
        UsageError: No format has that suffix.
        OutputError: The file cannot be written.
    """
    target = Path(path)
    text = find_renderer(target, renderers or renderers_of(result)).render(result)
    write_file(target, text)


def document_of(result: Any) -> Document:
    """Returns the document of a result."""
    name = next(renderer.document for renderer in renderers_of(result) if renderer.document)
    document: Document = _find(name)(result)
    return document


def to_dataframe(result: Any) -> Any:
    """Converts a result to a pandas DataFrame.

    The rows are operations of a profile or a model, operations whose times are compared, the totals of a
    recorded program, or the figures of several profiles.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    columns = _find(_COLUMNS.get(type(result).__name__, "columns:figure_columns"))
    return _find("columns:data_frame")(columns(result))


def notebook_card(result: Any) -> str:
    """Returns a result as HTML for notebooks."""
    return str(_find("cards:write_card")(document_of(result)))


def find_renderer(path: Path, renderers: Sequence[Renderer] = RENDERERS) -> Renderer:
    """Returns the renderer for a file, by its suffix.

    Raises:
        UsageError: No format has this suffix.
    """
    found = [renderer for renderer in renderers if renderer.suits(path)]
    if found:
        return max(found, key=lambda renderer: len(renderer.suffix))
    suffix = path.suffix.lower()
    known = [renderer.suffix for renderer in renderers]
    near = difflib.get_close_matches(suffix, known, n=1)
    hint = f"did you mean {path.with_suffix(near[0])}?" if near else f"use one of {', '.join(known)}"
    what = (
        f"no report format has the suffix {suffix!r}"
        if suffix
        else f"{path} has no suffix that selects a format"
    )
    raise UsageError(what, hint)
