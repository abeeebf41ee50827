"""Variants of a model as Markdown."""

from __future__ import annotations

from coremlscope.base.escaping import markdown_text as cell
from coremlscope.reports.markdown.report import table
from coremlscope.reports.variants import device_blocks, quality_block, remarks, variant_failures
from coremlscope.reports.words import model_name
from coremlscope.results.variants import VariantReport

__all__ = ["render_markdown_variants"]


def render_markdown_variants(report: VariantReport) -> str:
    """Renders variants as Markdown: sizes and outputs, a table for each device, remarks and failures."""
    blocks = [f"## Variants of {cell(model_name(report.path))}"]
    for block in (quality_block(report), *device_blocks(report)):
        titles = (block.titles[0], *(f"{name}>" for name in block.titles[1:]))
        blocks += [f"### {cell(block.title)} ({cell(block.remark)})", table(titles, block.rows)]
    blocks += ["\n".join(f"- {cell(remark)}" for remark in remarks(report))]
    failed = [f"- {cell(text)}" for text, _ in variant_failures(report)]
    if failed:
        blocks += ["### Not made", "\n".join(failed)]
    return "\n\n".join(block for block in blocks if block) + "\n"
