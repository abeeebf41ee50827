"""One explicit table of renderers for each kind of result, chosen by a file's suffix.

This module imports every renderer; what needs a single one imports the module of that one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.writing import write_file
from coremlscope.describe.comparison.profiles import Comparison
from coremlscope.reports.columns import change_columns, data_frame, figure_columns, listed_columns, op_columns
from coremlscope.reports.csv import render_csv, render_figures_csv, render_variants_csv
from coremlscope.reports.gate import render_junit, render_sarif
from coremlscope.reports.json import Result, render_json
from coremlscope.reports.layers import render_layers, render_layers_csv, render_layers_markdown
from coremlscope.reports.markdown.comparison import render_markdown_comparison, render_markdown_profiles
from coremlscope.reports.markdown.explanation import render_markdown_explanations
from coremlscope.reports.markdown.gate import render_markdown_gate
from coremlscope.reports.markdown.report import render_markdown
from coremlscope.reports.markdown.variants import render_markdown_variants
from coremlscope.reports.markdown.verification import render_markdown_verification
from coremlscope.reports.notebook import (
    comparison_card,
    model_card,
    profile_card,
    profiles_card,
    variants_card,
)
from coremlscope.reports.page import (
    render_html,
    render_html_comparison,
    render_html_gate,
    render_html_results,
    render_html_trace,
    render_html_variants,
)
from coremlscope.reports.program.card import trace_card
from coremlscope.reports.program.changes import (
    render_changes,
    render_changes_csv,
    render_changes_markdown,
)
from coremlscope.reports.program.csv import render_program_csv, total_columns
from coremlscope.reports.program.markdown import render_program_markdown
from coremlscope.reports.program.perfetto import render_program_perfetto
from coremlscope.reports.program.terminal import render_program
from coremlscope.reports.terminal.comparison import render_comparison
from coremlscope.reports.terminal.gate import render_gate
from coremlscope.reports.terminal.op_explanation import render_explanations
from coremlscope.reports.terminal.report import render_console
from coremlscope.reports.terminal.side_by_side import render_side_by_side
from coremlscope.reports.terminal.variants import render_variants
from coremlscope.reports.terminal.verification import render_verification
from coremlscope.reports.trace import render_trace
from coremlscope.reports.variants import variant_columns
from coremlscope.reports.verification_page import render_html_verification
from coremlscope.results.explanation import Explanations
from coremlscope.results.gate import GateReport
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile
from coremlscope.results.recording_changes import RecordingChanges
from coremlscope.results.sweep import ResultTable
from coremlscope.results.trace import Trace
from coremlscope.results.variants import VariantReport
from coremlscope.results.verification import Verification

__all__ = [
    "CHANGES_RENDERERS",
    "COMPARISON_RENDERERS",
    "EXPLANATION_RENDERERS",
    "GATE_RENDERERS",
    "LAYER_RENDERERS",
    "PROFILES_RENDERERS",
    "RENDERERS",
    "SUMMARY_RENDERERS",
    "TRACE_RENDERERS",
    "VARIANT_RENDERERS",
    "VERIFICATION_RENDERERS",
    "Renderer",
    "find_renderer",
    "notebook_card",
    "renderers_of",
    "to_dataframe",
    "write_report",
]

Subject = TypeVar("Subject", contravariant=True)


class Renderer(msgspec.Struct, Generic[Subject], frozen=True):
    """A format of reports.

    Attributes:
        suffix: The suffix of its files.
        doc: A short description of its purpose.
        render: Returns the text of a report.
    """

    suffix: str
    doc: str
    render: Callable[[Subject], str]

    def suits(self, path: Path) -> bool:
        """Returns whether a file's name selects this format; `.trace.json` also matches `trace.json`."""
        name = path.name.lower()
        if self.suffix.count(".") > 1:
            return name.endswith(self.suffix) or name == self.suffix[1:]
        return path.suffix.lower() == self.suffix


#: Formats of model descriptions.
SUMMARY_RENDERERS: tuple[Renderer[Profile | ModelSummary], ...] = (
    Renderer(".html", "one self-contained page, to view and to send", render_html),
    Renderer(".json", "the whole result, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_markdown),
    Renderer(".csv", "one row an operation, for spreadsheets", render_csv),
    Renderer(".txt", "the tables of the console", render_console),
)

#: Formats of profiles; a suffix precedes shorter suffixes with which it ends.
RENDERERS: tuple[Renderer[Profile], ...] = (
    Renderer(".trace.json", "a trace for Perfetto (ui.perfetto.dev)", render_trace),
    *SUMMARY_RENDERERS,
)

#: Formats of comparisons.
COMPARISON_RENDERERS: tuple[Renderer[Comparison], ...] = (
    Renderer(".html", "one self-contained page, to view and to send", render_html_comparison),
    Renderer(".json", "the whole result, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_markdown_comparison),
    Renderer(".csv", "one row a figure, for spreadsheets", lambda found: render_figures_csv(found.profiles)),
    Renderer(".txt", "the tables of the console", render_comparison),
)


#: Formats of several profiles.
PROFILES_RENDERERS: tuple[Renderer[Sequence[Profile]], ...] = (
    Renderer(".html", "one self-contained page, to view and to send", render_html),
    Renderer(".json", "the whole result, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_markdown_profiles),
    Renderer(".csv", "one row a figure, for spreadsheets", render_figures_csv),
    Renderer(".txt", "the tables of the console", render_side_by_side),
)

#: Formats of single layers under several options.
LAYER_RENDERERS: tuple[Renderer[Sequence[Profile]], ...] = (
    Renderer(".html", "one self-contained page, to view and to send", render_html),
    Renderer(".json", "the whole result, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_layers_markdown),
    Renderer(".csv", "one row a layer, device and setting, for spreadsheets", render_layers_csv),
    Renderer(".txt", "the tables of the console", render_layers),
)

#: Formats of recorded programs; a suffix precedes shorter suffixes with which it ends.
TRACE_RENDERERS: tuple[Renderer[Trace], ...] = (
    Renderer(".trace.json", "a trace for Perfetto (ui.perfetto.dev)", render_program_perfetto),
    Renderer(".html", "one self-contained page, to view and to send", render_html_trace),
    Renderer(".json", "the whole recording, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_program_markdown),
    Renderer(".csv", "one row a kind of event, for spreadsheets", render_program_csv),
    Renderer(".txt", "the tables of the console", render_program),
)


#: Formats of two recordings next to each other.
CHANGES_RENDERERS: tuple[Renderer[RecordingChanges], ...] = (
    Renderer(".json", "the whole result, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_changes_markdown),
    Renderer(".csv", "one row a kind of event, for spreadsheets", render_changes_csv),
    Renderer(".txt", "the tables of the console", render_changes),
)


#: Formats of variants of a model.
VARIANT_RENDERERS: tuple[Renderer[VariantReport], ...] = (
    Renderer(".html", "one self-contained page, to view and to send", render_html_variants),
    Renderer(".json", "the whole result, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_markdown_variants),
    Renderer(".csv", "one row a variant and device, for spreadsheets", render_variants_csv),
    Renderer(".txt", "the tables of the console", render_variants),
)


#: Formats of gates' results.
GATE_RENDERERS: tuple[Renderer[GateReport], ...] = (
    Renderer(".html", "one self-contained page, to view and to send", render_html_gate),
    Renderer(".sarif", "SARIF 2.1.0, for code scanning", render_sarif),
    Renderer(".xml", "JUnit XML, for reports of tests", render_junit),
    Renderer(".md", "Markdown, for a pull request", render_markdown_gate),
    Renderer(".json", "the whole result, for programs and baselines", render_json),
    Renderer(".txt", "the text of the console", render_gate),
)


#: Formats of explanations of operations.
EXPLANATION_RENDERERS: tuple[Renderer[Explanations], ...] = (
    Renderer(".json", "the whole result, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_markdown_explanations),
    Renderer(".txt", "the tables of the console", render_explanations),
)


#: Formats of verifications.
VERIFICATION_RENDERERS: tuple[Renderer[Verification], ...] = (
    Renderer(".html", "one self-contained page, to view and to send", render_html_verification),
    Renderer(".json", "the whole result, for programs", render_json),
    Renderer(".md", "Markdown, for a pull request", render_markdown_verification),
    Renderer(".txt", "the tables of the console", render_verification),
)


#: Formats of tables of results of sweeps.
SWEEP_RENDERERS: tuple[Renderer[ResultTable], ...] = (
    Renderer(".html", "one self-contained page, to view and to send", render_html_results),
)


def renderers_of(
    result: Result | Explanations | GateReport | RecordingChanges | ResultTable | Verification,
) -> Sequence[Renderer[Any]]:
    """Returns the formats of a result."""
    if isinstance(result, Explanations):
        return EXPLANATION_RENDERERS
    if isinstance(result, GateReport):
        return GATE_RENDERERS
    if isinstance(result, Verification):
        return VERIFICATION_RENDERERS
    if isinstance(result, RecordingChanges):
        return CHANGES_RENDERERS
    if isinstance(result, Profile):
        return RENDERERS
    if isinstance(result, ModelSummary):
        return SUMMARY_RENDERERS
    if isinstance(result, Trace):
        return TRACE_RENDERERS
    if isinstance(result, VariantReport):
        return VARIANT_RENDERERS
    if isinstance(result, ResultTable):
        return SWEEP_RENDERERS
    return COMPARISON_RENDERERS if isinstance(result, Comparison) else PROFILES_RENDERERS


def write_report(
    result: Result | Explanations | GateReport | RecordingChanges | ResultTable | Verification,
    path: str | os.PathLike[str],
    renderers: Sequence[Renderer[Any]] | None = None,
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


def to_dataframe(result: Result) -> Any:
    """Converts a result to a pandas DataFrame.

    The rows are operations of a profile or a model, operations whose times are compared, the totals of a
    recorded program, or the figures of several profiles.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    if isinstance(result, Profile):
        return data_frame(op_columns(result))
    if isinstance(result, ModelSummary):
        return data_frame(listed_columns(result))
    if isinstance(result, Trace):
        return data_frame(total_columns(result))
    if isinstance(result, VariantReport):
        return data_frame(variant_columns(result))
    columns = change_columns(result) if isinstance(result, Comparison) else figure_columns(result)
    return data_frame(columns)


def notebook_card(result: Result) -> str:
    """Returns a result as HTML for notebooks."""
    if isinstance(result, Profile):
        return profile_card(result)
    if isinstance(result, ModelSummary):
        return model_card(result)
    if isinstance(result, Trace):
        return trace_card(result)
    if isinstance(result, VariantReport):
        return variants_card(result)
    if not isinstance(result, Comparison):
        return profiles_card(result)
    return comparison_card(result) if result.differences else profiles_card(result.profiles)


def find_renderer(path: Path, renderers: Sequence[Renderer[Any]] = RENDERERS) -> Renderer[Any]:
    """Returns the renderer for a file, by its suffix.

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
        else f"{path} has no suffix that selects a format"
    )
    raise UsageError(what, hint)
