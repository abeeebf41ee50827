"""A screen of text for the console: headings, pairs and tables of a given width, with or without colour."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from coremlscope.base.units import escape_controls
from coremlscope.reports.document import Column, Strong
from coremlscope.reports.terminal.layout import GAP, Layout, fit_columns
from coremlscope.reports.words import shorten

# Text in lines of a given width: broken between words, long words after a separator.

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


__all__ = ["Column", "Screen"]

_TITLE, _HEADING, _LABEL, _QUIET = "bold cyan", "bold", "dim", "dim"
#: The codes of a terminal for each word of a style. The shades can be read on white and on black, as the
#: terminal's own cyan and yellow cannot.
_CODES = {
    "bold": "1",
    "dim": "2",
    "cyan": "38;5;31",
    "green": "38;5;28",
    "yellow": "38;5;130",
    "red": "38;5;160",
}


class Screen:
    """Collects printed lines and returns them as text.

    Args:
        width: Columns of the terminal.
        color: Whether styles become ANSI sequences.
    """

    def __init__(self, width: int, color: bool) -> None:
        self.width = width
        self._color = color
        self._lines: list[str] = []

    @property
    def text(self) -> str:
        """Returns the text printed so far, without trailing blanks."""
        return "\n".join(self._lines) + "\n"

    def line(self, text: str = "", style: str = "", indent: int = 0) -> None:
        """Prints a paragraph, wrapped if it is too long."""
        for part in wrap(escape_controls(text, keep="\n"), self.width - indent):
            self._print((" " * indent, ""), (part, style))

    def bullet(self, mark: str, text: str, hints: str | Iterable[str] = (), style: str = "") -> None:
        """Prints an indented paragraph after a mark, and below it hints."""
        inner = 2 + len(mark) + 1
        for number, part in enumerate(wrap(escape_controls(text), self.width - inner)):
            self._print(("  ", ""), (mark if number == 0 else " " * len(mark), style), (" " + part, ""))
        for hint in filter(None, [hints] if isinstance(hints, str) else hints):
            self.line(hint, _QUIET, inner)

    def title(self, text: str, quiet: str = "", style: str = "") -> None:
        """Prints the title of the screen."""
        self._titled(escape_controls(text), escape_controls(quiet), f"bold {style}" if style else _TITLE)

    def heading(self, text: str, quiet: str = "") -> None:
        """Prints a heading with a remark."""
        self._print()
        self._titled(escape_controls(text), f"  {escape_controls(quiet)}" if quiet else "", _HEADING)

    def _titled(self, title: str, remark: str, style: str) -> None:
        rest = len(title)
        for part in wrap(title + remark, self.width):
            self._print((part[:rest], style), (part[rest:], _QUIET))
            rest = max(0, rest - len(part))

    def pairs(self, rows: Iterable[tuple[str, str]], indent: int = 0) -> None:
        """Prints labels and values; rows without a value are omitted."""
        present = [
            (escape_controls(label), escape_controls(value, keep="\n")) for label, value in rows if value
        ]
        widest = max((len(label) for label, _ in present), default=0)
        for label, value in present:
            for number, part in enumerate(wrap(value, self.width - indent - widest - GAP)):
                shown = (label if number == 0 else "").ljust(widest + GAP)
                self._print((" " * indent + shown, _LABEL), (part, ""))

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: int = 2) -> None:
        """Prints a table without rules. Columns without any content are omitted.

        See `fit_columns` for what happens on a narrow screen; columns that are left out are named.
        """
        kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
        shown = [replace(columns[i], title=escape_controls(columns[i].title)) for i in kept]
        cells = [[type(row[i])(escape_controls(row[i])) for i in kept] for row in rows]
        layout = fit_columns(shown, cells, self.width - indent)
        for parts in _table_lines(shown, cells, layout, self.width - indent):
            self._print((" " * indent, ""), *parts)
        names = [shown[i].title for i in layout.left_out if shown[i].title]
        if names:
            self.line(f"left out at {self.width} columns: {', '.join(names)}", _QUIET, indent)

    def _print(self, *parts: tuple[str, str]) -> None:
        """Prints one line, of texts with their styles."""
        line = "".join(_styled(text, style) if self._color else text for text, style in parts if text)
        self._lines.append(line.rstrip())


def _styled(text: str, style: str) -> str:
    """Returns text with codes of a style: words, and perhaps the address of a link."""
    words, _, address = style.partition("link ")
    codes = ";".join(_CODES[word] for word in words.split())
    shown = f"\x1b[{codes}m{text}\x1b[0m" if codes else text
    return f"\x1b]8;;{address}\x1b\\{shown}\x1b]8;;\x1b\\" if address else shown


#: How many characters before the first difference are shown of texts that are shortened apart.
_CONTEXT = 3
#: Where the part begins that differs, if it is not longer.
_SEPARATORS, _LONGEST_WORD = "/_., (", 12
#: A line of a table: texts with their styles.
_Line = Sequence[tuple[str, str]]


def _table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], layout: Layout, width: int
) -> Iterator[_Line]:
    """Yields the lines of a table."""
    if any(columns[i].title for i in layout.widths):
        titles = [column.title for column in columns]
        yield from _row_lines(columns, titles, layout, _LABEL)
    fitted = {
        i: _fit_apart(dict.fromkeys(row[i] for row in rows), width)
        for i, width in layout.widths.items()
        if not columns[i].wraps
    }
    for row in rows:
        shown = [type(text)(fitted[i][text]) if i in fitted else text for i, text in enumerate(row)]
        yield from _row_lines(columns, shown, layout)
        for i in layout.below:
            if row[i]:
                title = f"{columns[i].title}: " if columns[i].title else ""
                for text in wrap(title + row[i], max(width - 4, 8)):
                    yield [(f"    {text}", columns[i].style)]


def _row_lines(
    columns: Sequence[Column], cells: Sequence[str], layout: Layout, style: str | None = None
) -> Iterator[_Line]:
    """Yields the lines of a row: one, or more where a cell wraps."""
    from rich.cells import cell_len

    parts = {
        i: wrap(cells[i], width) if columns[i].wraps else [_fit(cells[i], width)]
        for i, width in layout.widths.items()
    }
    for number in range(max(map(len, parts.values()))):
        line: list[tuple[str, str]] = []
        for i, width in layout.widths.items():
            part = parts[i][number] if number < len(parts[i]) else ""
            blanks = " " * (width - cell_len(part))
            line.append((" " * GAP if line else "", ""))
            text = blanks + part if columns[i].is_number else part + blanks
            shade = columns[i].style if style is None else style
            line.append((text, f"bold {shade}".strip() if isinstance(cells[i], Strong) else shade))
        yield line


def _fit_apart(texts: Iterable[str], most: int, start: int = 0) -> dict[str, str]:
    """Shortens different texts of a column; those that would look alike begin where they differ."""
    fitted = {text: _fit(f"…{text[start:]}" if start else text, most) for text in texts}
    alike: dict[str, list[str]] = {}
    for text, shown in fitted.items():
        alike.setdefault(shown, []).append(text)
    for group in alike.values():
        common = _common_start(group)
        word = max(group[0].rfind(separator, 0, common) for separator in _SEPARATORS) + 1
        later = word if word > max(start, common - _LONGEST_WORD) else common - _CONTEXT
        if len(group) > 1 and later > start:
            fitted.update(_fit_apart(group, most, later))
    return fitted


def _common_start(texts: Sequence[str]) -> int:
    """Returns the number of characters with which all texts begin."""
    differs = (place for place, found in enumerate(zip(*texts, strict=False)) if len(set(found)) > 1)
    return next(differs, min(map(len, texts)))


def _fit(text: str, most: int) -> str:
    """Shortens text to a number of terminal columns; some characters take two."""
    from rich.cells import cell_len

    width = most
    while cell_len(fitted := shorten(text, width)) > most:
        width -= 1
    return fitted
