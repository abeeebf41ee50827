"""Text in lines of a given width: broken between words, long words after a separator."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: A word with the blanks before it.
_WORDS = re.compile(r"([ \t]*)([^ \t]+)")
#: Names, paths and addresses are broken after one of these.
_PIECES = re.compile(r"[^/_.,:;&=?+\-]*[/_.,:;&=?+\-]+|[^/_.,:;&=?+\-]+")


def wrap(text: str, width: int) -> list[str]:
    """Returns the lines of a text.

    Args:
        text: The text; its line breaks are kept.
        width: The width of a line in cells of a terminal; some characters take two.
    """
    return [line for paragraph in text.split("\n") for line in _wrap_paragraph(paragraph, max(width, 2))]


def _wrap_paragraph(text: str, width: int) -> Iterator[str]:
    from rich.cells import cell_len

    line = ""
    for blanks, word in _WORDS.findall(text):
        if cell_len(line) + len(blanks) + cell_len(word) <= width:
            line += blanks + word
            continue
        if line:
            yield line
        *whole, line = break_word(word, width)
        yield from whole
    yield line


def break_word(word: str, width: int) -> list[str]:
    """Breaks a word that is longer than a line after its separators; within a piece only if it must be."""
    from rich.cells import cell_len, chop_cells

    lines = [""]
    for piece in _PIECES.findall(word):
        if cell_len(lines[-1]) + cell_len(piece) <= width:
            lines[-1] += piece
        else:
            lines += chop_cells(piece, width)
    return [line for line in lines if line] or [""]
