"""Documents as cards for notebooks.

Cards are plain HTML with inline styles: notebooks remove scripts and style sheets. Colours are the
notebook's own, so that they match light and dark themes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from coremlscope.base.escaping import html_text
from coremlscope.reports.document import (
    Block,
    Bullet,
    Cell,
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

_LINE = "1px solid rgba(127,127,127,.35)"
_CELL = "padding:2px 10px 2px 0;background:transparent;color:inherit;border:none;"
_BAR = "display:inline-block;height:.7em;background:#3b82c4;border-radius:1px;width:{:.1f}em"
_DRAWING = "margin:8px 0 0;padding:0;background:transparent;color:inherit;font-size:12px;line-height:1.2"
#: The columns of drawings, and the rows of tables.
_WIDTH, _LISTED = 90, 12


def write_card(document: Document) -> str:
    """Returns a document as HTML."""
    return "".join(
        [
            '<div style="font-size:13px;line-height:1.45;max-width:60em;overflow-x:auto">',
            *map(_block, document),
            "</div>",
        ]
    )


def _block(block: Block) -> str:
    if isinstance(block, Title):
        return _div(block.text, "font-weight:600;font-size:15px") + _div(block.remark, "opacity:.75")
    if isinstance(block, Conclusion):
        return _div(block.sentence, "font-weight:600;font-size:15px")
    if isinstance(block, Heading):
        return f'<div style="margin-top:8px">{_titled(block.text, block.remark)}</div>'
    if isinstance(block, Facts):
        return "".join(_div(f"{name}: {value}", "opacity:.75") for name, value in block.rows if value)
    if isinstance(block, Table):
        return "".join(_table(block))
    if isinstance(block, Text):
        mark = "⚠ " if block.style == "warning" else ""
        return _div(mark + block.text, "margin-top:4px" + ";font-weight:600" * (block.style == "strong"))
    if isinstance(block, Item):
        hints = (_div(hint, "margin-left:1.2em;opacity:.75") for hint in block.hints)
        mark = "⚠" if block.mark == "!" else block.mark
        return _div(f"{mark} {block.text}", "margin-top:4px") + "".join(hints)
    if isinstance(block, Drawing):
        lines = block.draw(_WIDTH)
        drawn = "\n".join(map(html_text, lines))
        return f'<pre style="{_DRAWING}">{drawn}</pre>' if lines else ""
    if isinstance(block, Folded):
        inner = "".join(map(_block, block.blocks))
        return f"<details><summary>{_titled(block.title, block.remark)}</summary>{inner}</details>"
    if isinstance(block, Hint):
        return ""
    assert_never(block)


def _div(text: str, style: str) -> str:
    return f'<div style="{style}">{html_text(text)}</div>' if text else ""


def _titled(text: str, remark: str) -> str:
    shown = f'<span style="font-weight:600">{html_text(text)}</span>'
    return f'{shown} <span style="opacity:.75">{html_text(remark)}</span>' if remark else shown


def _table(block: Table) -> Iterator[str]:
    """Yields a table, without empty columns."""
    rows = block.shown[:_LISTED]
    kept = [i for i in range(len(block.columns)) if any(row[i] for row in rows)]
    if not kept:
        return
    sides = ["right" if block.columns[i].is_number else "left" for i in kept]
    yield '<table style="border-collapse:collapse;margin:0;color:inherit"><thead><tr>'
    for i, side in zip(kept, sides, strict=True):
        style = f"{_CELL}text-align:{side};font-weight:400;opacity:.75"
        yield f'<th scope="col" style="{style}">{html_text(block.columns[i].title)}</th>'
    yield "</tr></thead><tbody>"
    for row in rows:
        yield f'<tr style="background:transparent;border-top:{_LINE}">'
        yield from (_cell(row[i], side) for i, side in zip(kept, sides, strict=True))
        yield "</tr>"
    yield "</tbody></table>"
    yield _div(block.rest(len(rows)), "opacity:.75")


def _cell(value: Cell, side: str) -> str:
    style = f"{_CELL}text-align:{side};white-space:nowrap;font-variant-numeric:tabular-nums"
    if isinstance(value, str):
        style += ";font-weight:600" * isinstance(value, Strong)
        return f'<td style="{style}">{html_text(value)}</td>'
    if isinstance(value, Bullet):
        return f'<td style="{style}"></td>'
    return f'<td style="{style}"><span style="{_BAR.format(max(0.0, min(value, 1.0)) * 12)}"></span></td>'
