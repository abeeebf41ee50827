"""Verifications as Markdown, for pull requests."""

from __future__ import annotations

from collections.abc import Iterable

from coremlscope.base.escaping import markdown_code as code
from coremlscope.base.escaping import markdown_text as cell
from coremlscope.reports.markdown.writer import table
from coremlscope.reports.verification import (
    OUTPUT_TITLES,
    PAIR_TITLES,
    VALUE_TITLES,
    fault_lines,
    fix_lines,
    headline,
    output_rows,
    pair_rows,
    pairing_line,
    value_rows,
)
from coremlscope.reports.words import model_name
from coremlscope.results.verification import Verification

__all__ = ["render_markdown_verification"]


def render_markdown_verification(found: Verification) -> str:
    """Renders a verification as Markdown, with all pairs."""
    blocks = [
        f"# {cell(headline(found))}",
        f"{code(model_name(found.model))}, {code(found.function)}, next to {code(found.reference)}. "
        f"Inputs: {cell('; '.join(found.inputs))}.",
        table(OUTPUT_TITLES, output_rows(found)),
    ]
    if found.faults:
        blocks += ["## The first operation that differs", _bullets(map(fault_lines, found.faults))]
    if found.fixes:
        blocks += ["## Changes that were tried", _bullets(map(fix_lines, found.fixes))]
    values = [(fault.op, *row) for fault in found.faults for row in value_rows(fault)]
    if values:
        blocks += ["## Values next to each other", table(("operation", *VALUE_TITLES), values)]
    blocks += ["## Pairs", f"{cell(pairing_line(found))}."]
    if found.pairs:
        blocks.append(table(PAIR_TITLES, pair_rows(found, found.pairs)))
    if found.findings:
        blocks.append(_bullets((finding.text, finding.hint) for finding in found.findings))
    return "\n\n".join(blocks) + "\n"


def _bullets(items: Iterable[tuple[str, str]]) -> str:
    lines = []
    for text, more in items:
        lines.append(f"- {cell(text)}")
        lines += [f"  - {cell(line)}" for line in more.splitlines()]
    return "\n".join(lines)
