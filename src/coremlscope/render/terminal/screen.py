"""A screen of text for the console: headings, pairs and tables of a given width, with or without colour."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coremlscope.render.words import shorten
from coremlscope.units import escape_controls

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Column", "Screen"]

_HEADING, _LABEL, _QUIET = "bold", "dim", "dim"
#: The space between two columns, and the smallest width of a shortened one.
_GAP, _LEAST = 2, 8
#: Longer words are broken where the screen is narrow.
_LONGEST_WORD = 20


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: Its heading.
        is_number: Whether it is right-aligned.
        most: Its largest width; longer texts are shortened in the middle, on narrow screens further. Columns
            of text without a largest width wrap.
        style: A style of rich.
    """

    title: str
    is_number: bool = False
    most: int | None = None
    style: str = ""

    @property
    def wraps(self) -> bool:
        """Returns whether long texts continue on the next line."""
        return not self.is_number and self.most is None


class Screen:
    """Collects printed lines and returns them as text.

    Args:
        width: Columns of the terminal.
        color: Whether styles become ANSI sequences.
    """

    def __init__(self, width: int, color: bool) -> None:
        from rich.console import Console

        self.width = width
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            width=width,
            force_terminal=color,
            color_system="standard" if color else None,
            no_color=not color,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
            _environ={},
        )

    @property
    def text(self) -> str:
        """Returns the text printed so far, without trailing blanks."""
        return "\n".join(line.rstrip() for line in self._file.getvalue().splitlines()) + "\n"

    def line(self, text: str = "", style: str = "", indent: int = 0) -> None:
        """Prints a paragraph, wrapped if it is too long."""
        from rich.text import Text

        self._indented(Text(escape_controls(text, keep="\n"), style=style), indent)

    def bullet(self, mark: str, text: str, hint: str = "", style: str = "") -> None:
        """Prints an indented paragraph after a mark, and below it a hint, which may have several lines."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text(mark, style=style), Text(escape_controls(text)))
        for line in hint.splitlines():
            grid.add_row("", Text(escape_controls(line), style=_QUIET))
        self._indented(grid, 2)

    def cells(self, texts: Sequence[str], indent: int = 2) -> None:
        """Prints short texts in columns."""
        widest = max(map(len, texts))
        across = max(1, (self.width - indent + 2) // (widest + 2))
        down = -(-len(texts) // across)
        for row in range(down):
            line = "  ".join(text.ljust(widest) for text in texts[row::down])
            self.line(line.rstrip(), indent=indent)

    def title(self, text: str, quiet: str = "") -> None:
        """Prints the title of the screen."""
        from rich.text import Text

        title = _fit(escape_controls(text), self.width)
        self._console.print(Text.assemble((title, "bold cyan"), (escape_controls(quiet), _QUIET)))

    def heading(self, text: str, quiet: str = "") -> None:
        """Prints a heading with a remark."""
        from rich.text import Text

        remark = f"  {escape_controls(quiet)}" if quiet else ""
        self._console.print()
        self._console.print(Text.assemble((escape_controls(text), _HEADING), (remark, _QUIET)))

    def pairs(self, rows: Iterable[tuple[str, str]], indent: int = 0) -> None:
        """Prints labels and values; rows without a value are omitted."""
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        table.add_column(style=_LABEL, no_wrap=True)
        table.add_column(overflow="fold")
        present = [(label, value) for label, value in rows if value]
        for label, value in present:
            table.add_row(escape_controls(label), escape_controls(value, keep="\n"))
        if present:
            self._indented(table, indent)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: int = 2) -> None:
        """Prints a table without rules. Columns without any content are omitted.

        If the screen is too narrow, each row becomes a short list: numbers are never cut.
        """
        kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
        shown = [replace(columns[i], title=escape_controls(columns[i].title)) for i in kept]
        cells = [[escape_controls(row[i]) for i in kept] for row in rows]
        widths = _fit_columns(shown, cells, self.width - indent - _GAP * (len(kept) - 1))
        if widths is None:
            self._list(shown, cells, indent)
        else:
            self._grid(shown, cells, widths, indent)

    def _grid(
        self, columns: Sequence[Column], rows: Sequence[Sequence[str]], widths: Sequence[int], indent: int
    ) -> None:
        from rich.table import Table

        table = Table(box=None, padding=(0, _GAP, 0, 0), header_style=_LABEL, pad_edge=False)
        for column, width in zip(columns, widths, strict=True):
            table.add_column(
                column.title,
                justify="right" if column.is_number else "left",
                no_wrap=not column.wraps,
                overflow="fold",
                style=column.style,
                width=width,
            )
        for row in rows:
            table.add_row(
                *(
                    cell if column.wraps else _fit(cell, width)
                    for column, cell, width in zip(columns, row, widths, strict=True)
                )
            )
        table.show_header = any(column.title for column in columns)
        self._indented(table, indent)

    def _list(self, columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: int) -> None:
        """Prints rows of a table that is too wide: a name, and below it the other cells with their titles."""
        leads = [
            i
            for i, column in enumerate(columns)
            if column.wraps or (column.most is not None and column.most > _LEAST)
        ]
        lead = leads[0] if leads else 0
        for row in rows:
            if row[lead]:
                self.line(_fit(row[lead], self.width - indent), columns[lead].style, indent)
            others = [i for i in range(len(columns)) if row[i] and i != lead]
            parts = [_titled(columns[i], row[i], i == others[-1]) for i in others]
            if parts:
                self.line("".join(parts), indent=indent + 2)

    def _indented(self, table: RenderableType, indent: int) -> None:
        from rich.padding import Padding

        self._console.print(Padding(table, (0, 0, 0, indent)))


def _titled(column: Column, cell: str, is_last: bool) -> str:
    """Formats a cell of a row that is printed as a list."""
    if column.title or is_last:
        return f"{column.title} {cell}".strip() + ("" if is_last else ", ")
    return f"{cell}: "


def _fit_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]], free: int) -> Sequence[int] | None:
    """Returns the width of each column so that all fit into `free`; None if they cannot.

    Columns that wrap become narrower first, down to their longest word, then those that are shortened.
    """
    from rich.cells import cell_len

    widths, least = [], []
    for i, column in enumerate(columns):
        texts = (column.title, *(row[i] for row in rows))
        width = max(map(cell_len, texts))
        if column.most is not None:
            width = max(min(width, column.most), cell_len(column.title))
        widths.append(width)
        if column.wraps:
            words = (word for text in texts for word in text.split())
            least.append(min(max(map(cell_len, words), default=0), _LONGEST_WORD))
        else:
            least.append(width if column.most is None else min(width, _LEAST))
    for wraps in (True, False):
        while sum(widths) > free:
            shrinkable = [i for i, c in enumerate(columns) if c.wraps == wraps and widths[i] > least[i]]
            if not shrinkable:
                break
            widths[max(shrinkable, key=widths.__getitem__)] -= 1
    return widths if sum(widths) <= free else None


def _fit(text: str, most: int | None) -> str:
    """Shortens text to a number of terminal columns; some characters take two."""
    from rich.cells import cell_len

    if most is None:
        return text
    width = most
    while cell_len(fitted := shorten(text, width)) > most:
        width -= 1
    return fitted
