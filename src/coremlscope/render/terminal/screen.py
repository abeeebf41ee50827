"""A screen of text for the console: headings, pairs and tables of a given width, with or without colour."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coremlscope.render.words import shorten
from coremlscope.units import escape_controls

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Column", "Screen"]

_HEADING, _LABEL, _QUIET = "bold", "dim", "dim"
#: Between two columns, and the narrowest that a shortened one gets.
_GAP, _LEAST = 2, 8


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: Its heading.
        is_number: Set flush right.
        most: Widest that it gets; longer texts are shortened in the middle. Where a table without columns
            that wrap is too wide, columns with a `most` get narrower still, the widest first.
        style: A style of rich.
    """

    title: str
    is_number: bool = False
    most: int | None = None
    style: str = ""


class Screen:
    """Collects what is printed, and gives it as text.

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
        """What was printed so far, without blanks at the ends of lines."""
        return "\n".join(line.rstrip() for line in self._file.getvalue().splitlines()) + "\n"

    def line(self, text: str = "", style: str = "", indent: int = 0) -> None:
        """A paragraph, wrapped where it is too long."""
        from rich.text import Text

        self._indented(Text(escape_controls(text, keep="\n"), style=style), indent)

    def bullet(self, mark: str, text: str, hint: str = "", style: str = "") -> None:
        """A paragraph behind a mark, its lines flush; a hint below it."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        grid.add_row(Text(mark, style=style), Text(escape_controls(text)))
        if hint:
            grid.add_row("", Text(escape_controls(hint), style=_QUIET))
        self._indented(grid, 2)

    def cells(self, texts: Sequence[str], indent: int = 2) -> None:
        """Short texts side by side, in columns that are read downwards."""
        widest = max(map(len, texts))
        across = max(1, (self.width - indent + 2) // (widest + 2))
        down = -(-len(texts) // across)
        for row in range(down):
            line = "  ".join(text.ljust(widest) for text in texts[row::down])
            self.line(line.rstrip(), indent=indent)

    def title(self, text: str, quiet: str = "") -> None:
        """The title of the screen."""
        from rich.text import Text

        title = _fit(escape_controls(text), self.width)
        self._console.print(Text.assemble((title, "bold cyan"), (escape_controls(quiet), _QUIET)))

    def heading(self, text: str, quiet: str = "") -> None:
        """A heading, with a remark beside it."""
        from rich.text import Text

        remark = f"  {escape_controls(quiet)}" if quiet else ""
        self._console.print()
        self._console.print(Text.assemble((escape_controls(text), _HEADING), (remark, _QUIET)))

    def pairs(self, rows: Iterable[tuple[str, str]], indent: int = 0) -> None:
        """Labels and values; rows without a value are left out."""
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
        """A table without rules. Columns without any content are left out."""
        from rich.table import Table

        kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
        rows = [[escape_controls(cell) for cell in row] for row in rows]
        widest = self._widest([columns[i] for i in kept], [[row[i] for i in kept] for row in rows], indent)
        table = Table(box=None, padding=(0, _GAP, 0, 0), header_style=_LABEL, pad_edge=False)
        for index in kept:
            column = columns[index]
            table.add_column(
                column.title,
                justify="right" if column.is_number else "left",
                no_wrap=column.is_number or column.most is not None,
                overflow="fold",
                style=column.style,
            )
        for row in rows:
            table.add_row(*(_fit(row[index], most) for index, most in zip(kept, widest, strict=True)))
        table.show_header = any(columns[index].title for index in kept)
        self._indented(table, indent)

    def _widest(
        self, columns: Sequence[Column], rows: Sequence[Sequence[str]], indent: int
    ) -> list[int | None]:
        """How wide each column may be; None for as wide as it is."""
        from rich.cells import cell_len

        most = [column.most for column in columns]
        if any(limit is None and not column.is_number for column, limit in zip(columns, most, strict=True)):
            return most  # there is a column that wraps
        widths = [
            max(map(cell_len, (column.title, *(row[i] for row in rows)))) for i, column in enumerate(columns)
        ]
        limited = {i: min(widths[i], limit) for i, limit in enumerate(most) if limit is not None}
        taken = sum(width for i, width in enumerate(widths) if i not in limited)
        free = self.width - indent - _GAP * (len(columns) - 1) - taken
        while limited and sum(limited.values()) > free and max(limited.values()) > _LEAST:
            limited[max(limited, key=limited.__getitem__)] -= 1
        return [limited.get(i) for i in range(len(columns))]

    def _indented(self, table: RenderableType, indent: int) -> None:
        from rich.padding import Padding

        self._console.print(Padding(table, (0, 0, 0, indent)))


def _fit(text: str, most: int | None) -> str:
    """The text in at most so many columns of the terminal; some characters take two."""
    from rich.cells import cell_len

    if most is None:
        return text
    width = most
    while cell_len(fitted := shorten(text, width)) > most:
        width -= 1
    return fitted
