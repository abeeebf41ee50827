"""A matrix of models and settings as Markdown."""

from __future__ import annotations

from coremlscope.batch import Matrix
from coremlscope.render.markdown.report import table
from coremlscope.render.terminal.matrix import (
    describe_runs,
    forecast_blocks,
    forecast_remarks,
    measured_blocks,
)
from coremlscope.render.words import plural

__all__ = ["render_markdown_matrix"]


def render_markdown_matrix(matrix: Matrix) -> str:
    """A matrix as Markdown: a table for what was measured, one for each device, and what failed."""
    blocks = [f"## {plural(len(matrix.rows), 'model')}, {describe_runs(matrix)}"]
    for title, remark, titles, rows in (*measured_blocks(matrix), *forecast_blocks(matrix)):
        blocks += [f"### {title} ({remark})", table((titles[0], *(f"{name}>" for name in titles[1:])), rows)]
    blocks += [remark.replace("*", "\\*") for remark in forecast_remarks(matrix)]
    problems = [f"- {row.model}, {p.what}: {p.message}" for row in matrix.rows for p in row.problems]
    if problems:
        blocks += ["### Failed", "\n".join(problems)]
    return "\n\n".join(blocks) + "\n"
