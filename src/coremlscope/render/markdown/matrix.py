"""Several models under settings of compute units as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.escaping import markdown_text as cell
from coremlscope.render.markdown.report import table
from coremlscope.render.terminal.matrix import (
    device_blocks,
    device_remarks,
    failures,
    measured_blocks,
    summary_line,
)
from coremlscope.results.profile import Profile

__all__ = ["render_markdown_matrix"]


def render_markdown_matrix(profiles: Sequence[Profile]) -> str:
    """Renders several profiles as Markdown: measurements, a table for each device, and failures."""
    blocks = [f"## {cell(summary_line(profiles))}"]
    for block in (*measured_blocks(profiles), *device_blocks(profiles)):
        titles = (block.titles[0], *(f"{name}>" for name in block.titles[1:]))
        blocks += [
            f"### {cell(block.title)} ({cell(block.remark)})",
            table(titles, block.rows),
        ]
    blocks += [cell(remark) for remark in device_remarks(profiles)]
    failed = [f"- {cell(text)}" for text, _ in failures(profiles)]
    if failed:
        blocks += ["### Failed", "\n".join(failed)]
    return "\n\n".join(blocks) + "\n"
