"""Documents as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

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
    Style,
    Table,
    Text,
    Title,
)
from coremlscope.reports.terminal.screen import Screen

_STYLES: Mapping[Style, str] = {
    "": "",
    "quiet": "dim",
    "strong": "bold",
    "good": "green",
    "warning": "yellow",
    "error": "red",
}
_TONES: Mapping[str, str] = {"kept": "green", "doubt": "yellow", "wrong": "red"}
#: The lengths of bars on wide and other terminals.
_WIDE, _BAR, _NARROW_BAR = 100, 20, 14


def write_terminal(document: Document, *, width: int = 100, color: bool = False) -> str:
    """Returns a document as text of `width` columns, with ANSI colours where `color` is set."""
    screen = Screen(width, color)
    show(screen, document)
    return screen.text


def show(screen: Screen, document: Document, above: Block | None = None) -> None:
    """Prints blocks.

    Args:
        screen: The screen.
        document: The blocks.
        above: The block that was printed before; None at the beginning.
    """
    for block in document:
        if isinstance(block, Folded) and block.is_extra:
            continue
        if _is_apart(block, above):
            screen.line()
        _show(screen, block)
        above = block


def _is_apart(block: Block, above: Block | None) -> bool:
    """Returns whether an empty line precedes a block; headings have their own."""
    if above is None:
        return False
    if isinstance(block, (Table, Facts)):
        return not isinstance(above, (Title, Conclusion, Heading))
    if isinstance(block, (Heading, Folded)):
        return False
    if isinstance(above, Folded):
        return True
    return isinstance(block, Title) or (isinstance(block, Hint) and not isinstance(above, Hint))


def _show(screen: Screen, block: Block) -> None:
    if isinstance(block, Title):
        screen.title(block.text, f"  {block.remark}" if block.remark else "")
    elif isinstance(block, Conclusion):
        screen.title(block.sentence, "", _TONES[block.tone])
    elif isinstance(block, Heading):
        screen.heading(block.text, block.remark)
    elif isinstance(block, Facts):
        screen.pairs(block.rows, block.indent)
    elif isinstance(block, Table):
        _show_table(screen, block)
    elif isinstance(block, Text):
        screen.line(block.text, _STYLES[block.style], block.indent)
    elif isinstance(block, Item):
        link = f"link {block.address}" if block.address else ""
        screen.bullet(
            block.mark, block.text, [*block.details, *block.hints], f"{_STYLES[block.style]} {link}".strip()
        )
    elif isinstance(block, Drawing):
        for line in block.draw(screen.width):
            screen.line(line)
    elif isinstance(block, Folded):
        heading = Heading(block.title, block.remark)
        screen.heading(block.title, block.remark)
        show(screen, block.blocks, heading)
    elif isinstance(block, Hint):
        screen.line(block.text, "dim")
    else:
        assert_never(block)


def _show_table(screen: Screen, table: Table) -> None:
    screen.table(table.columns, [[_text(screen, cell) for cell in row] for row in table.shown])
    if rest := table.rest(len(table.shown)):
        screen.line(rest, "dim", indent=2)


def _text(screen: Screen, cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Bullet):
        return ""
    width = _BAR if screen.width >= _WIDE else _NARROW_BAR
    eighths = round(min(max(cell, 0.0), 1.0) * width * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
