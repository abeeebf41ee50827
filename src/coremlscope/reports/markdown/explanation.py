"""Explanations of operations as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from coremlscope.base.escaping import markdown_code as code
from coremlscope.base.escaping import markdown_text as cell
from coremlscope.reports.explanation import (
    COST_TITLES,
    chosen_line,
    cost_rows,
    forced_lines,
    left_out_line,
    path_text,
    rule_details,
    rule_line,
    unknown_line,
)
from coremlscope.reports.markdown.report import table
from coremlscope.reports.words import NO_COSTS, compact_type, model_name
from coremlscope.results.explanation import Explanation, Explanations

__all__ = ["render_markdown_explanations"]


def render_markdown_explanations(found: Explanations) -> str:
    """Renders explanations of operations as Markdown."""
    told: set[str] = set()
    blocks = [
        f"# {cell(model_name(found.path))}",
        f"On {cell(found.device)}, {cell(found.os)}, under {found.compute_units}:"
        f" {cell(found.cost_model or NO_COSTS)};"
        " planned, nothing was measured.",
        "\n".join(f"- {cell(note)}" for note in found.notes),
        *(block for explained in found.ops for block in _explanation(explained, told)),
        cell(left_out_line(found)),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _explanation(explained: Explanation, told: set[str]) -> Iterator[str]:
    yield f"## {code(explained.name)} ({cell(explained.type)}, {code(explained.id)})"
    types = ", ".join(map(compact_type, explained.outputs))
    yield cell("; ".join(filter(None, [types, chosen_line(explained)])))
    yield f"Path: {cell(path_text(explained.path))}"
    yield table(COST_TITLES, cost_rows(explained))
    others = [f"- {cell(outcome)}\n  - {cell(path)}" for outcome, path in forced_lines(explained)]
    if others:
        yield "### If it had to run elsewhere (planned and estimated)"
        yield "\n".join(others)
    lines = [
        "\n  - ".join([f"- {cell(rule_line(rule))}", *map(cell, rule_details(rule, told))])
        for rule in explained.rules
    ]
    unknown = unknown_line(explained)
    lines += [f"- {cell(unknown)}"] if unknown else []
    if lines:
        yield "### Rules that apply"
        yield "\n".join(lines)
