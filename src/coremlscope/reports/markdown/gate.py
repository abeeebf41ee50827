"""A gate's result as Markdown, for pull requests and step summaries."""

from __future__ import annotations

from coremlscope.base.escaping import markdown_text as cell
from coremlscope.reports.gate import MARKS, verdict_word
from coremlscope.reports.markdown.report import table
from coremlscope.reports.terminal.gate import gate_summary
from coremlscope.reports.words import model_name
from coremlscope.results.gate import GateReport

__all__ = ["render_markdown_gate"]


def render_markdown_gate(report: GateReport) -> str:
    """Renders a gate's result as Markdown: a table for each model."""
    state = "✗" if report.exit_code else "✓"
    blocks = [f"## {state} coremlscope check: {cell(gate_summary(report))}"]
    for model in report.models:
        blocks.append(f"### {cell(model_name(model.path))}")
        if model.failure:
            blocks.append(f"✗ {cell(model.failure)}: {cell(model.hint)}")
        rows = [
            (
                f"{MARKS[check.verdict]} {verdict_word(check, report.strict)}",
                check.kind,
                check.text,
                check.hint,
            )
            for check in model.checks
        ]
        if rows:
            blocks.append(table(("", "limit", "found", "hint"), rows))
    return "\n\n".join(blocks) + "\n"
