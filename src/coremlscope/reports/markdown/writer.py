"""Documents as Markdown, for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

from coremlscope.base.escaping import MarkdownCode, html_text, markdown_cell, markdown_code, markdown_text
from coremlscope.base.units import escape_controls
from coremlscope.reports.document import (
    Block,
    Cell,
    Column,
    Conclusion,
    Document,
    Drawing,
    Facts,
    Folded,
    Heading,
    Hint,
    Item,
    Strong,
    Table,
    Text,
    Title,
)

#: Marks of a terminal that Markdown writes in another way.
_MARKS: Mapping[str, str] = {"!": "⚠ ", "•": "", "·": ""}
#: The columns of drawings.
_WIDTH = 100
#: The rows of tables that can be closed, and of others.
_LISTED_FOLDED, _LISTED = 10_000, 200


def write_markdown(document: Document) -> str:
    """Returns a document as Markdown."""
    return "\n\n".join(filter(None, _blocks(document, _LISTED))) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; columns whose title ends with `>` are right-aligned."""
    titles = [markdown_cell(column.removesuffix(">")) for column in columns]
    rules = ["---:" if column.endswith(">") else "---" for column in columns]
    lines = [titles, rules, *([markdown_cell(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _blocks(document: Document, most: int) -> Iterator[str]:
    """Yields paragraphs; entries that follow each other are one list."""
    entries: list[str] = []
    for block in document:
        if isinstance(block, Item):
            entries.append(_entry(block))
            continue
        yield "\n".join(entries)
        entries = []
        yield _block(block, most)
    yield "\n".join(entries)


def _entry(item: Item) -> str:
    mark = _MARKS.get(item.mark, f"{item.mark} ")
    page = item.address.rstrip("/").rpartition("/")[2]
    link = f" [{page}]({item.address})" if page else ""
    return "\n  - ".join(
        [f"- {mark}{markdown_text(item.text)}{link}", *map(markdown_text, (*item.details, *item.hints))]
    )


def _block(block: Block, most: int) -> str:
    if isinstance(block, (Title, Heading)):
        level = "##" if isinstance(block, Title) else "###"
        return f"{level} {markdown_text(_titled(block.text, block.remark, isinstance(block, Title)))}"
    if isinstance(block, Conclusion):
        text = markdown_text(block.sentence)
        return f"## {text}" if block.title else f"**{text}**"
    if isinstance(block, Facts):
        return "\n".join(
            f"- {markdown_text(name)}: {markdown_text(value)}" for name, value in block.rows if value
        )
    if isinstance(block, Table):
        return _table(block, most)
    if isinstance(block, Text):
        text = markdown_text(block.text)
        return f"**{text}**" if block.style == "strong" else f"{'⚠ ' * (block.style == 'warning')}{text}"
    if isinstance(block, Item):
        return _entry(block)
    if isinstance(block, Drawing):
        lines = [escape_controls(line).replace("`", "ʼ") for line in block.draw(_WIDTH)]
        return "\n".join(["```text", *lines, "```"]) if lines else ""
    if isinstance(block, Folded):
        summary = html_text(_titled(block.title, block.remark))
        inner = filter(None, _blocks(block.blocks, _LISTED_FOLDED))
        return "\n\n".join([f"<details>\n<summary>{summary}</summary>", *inner, "</details>"])
    if isinstance(block, Hint):
        return ""
    assert_never(block)


def _titled(text: str, remark: str, is_title: bool = False) -> str:
    if not remark:
        return text
    return f"{text}: {remark}" if is_title else f"{text} ({remark})"


def _table(block: Table, most: int) -> str:
    """Returns a table without bars and empty columns, and how many rows are left out."""
    rows = block.rows[: max(block.most or 0, most)]
    kept = [i for i in range(len(block.columns)) if any(isinstance(row[i], str) and row[i] for row in rows)]
    if not kept:
        return ""
    titles = [f"{block.columns[i].title}{'>' * block.columns[i].is_number}" for i in kept]
    cells = [[_cell(block.columns[i], row[i]) for i in kept] for row in rows]
    rest = block.rest(len(rows))
    return "\n\n".join(filter(None, (table(titles, cells), markdown_text(rest))))


def _cell(column: Column, value: Cell) -> str:
    if isinstance(value, Strong):
        return MarkdownCode(f"**{markdown_text(value)}**")
    return markdown_code(str(value)) if column.is_code else str(value)
