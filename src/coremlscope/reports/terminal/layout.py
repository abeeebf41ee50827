"""How a table is fitted to a screen: which columns are narrowed, printed below their rows, or left out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.reports.document import Column

#: The space between two columns.
GAP = 2
#: The smallest width of a shortened column, of a column that wraps, and of the labels of rows.
_LEAST, _LEAST_WRAPPED, _LEAST_LABEL = 16, 20, 22
#: Longer words are broken where the screen is narrow.
_LONGEST_WORD = 32


class Layout(msgspec.Struct, frozen=True):
    """Where the columns of a table go.

    Attributes:
        widths: The width of each column that is printed, by its index.
        below: The indices of columns that are printed below their rows.
        left_out: The indices of columns that are not printed although they belong to the table.
    """

    widths: dict[int, int]
    below: tuple[int, ...]
    left_out: tuple[int, ...]


def fit_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Layout:
    """Fits a table to a width.

    Extra columns are shown only where nothing becomes narrower for them. Columns of text become narrower
    first, down to a width that can be read. If that is not enough, long texts are printed below their rows,
    and then columns are left out: those of the highest rank first, of several with the same rank texts before
    numbers, and the last. The labels of rows are never left out.

    Args:
        columns: The columns.
        rows: The cells of each row.
        width: The number of columns of the terminal.
    """
    lead = _label(columns)
    columns = [*columns[:lead], *map(_as_label, columns[lead : lead + 1]), *columns[lead + 1 :]]
    widest = [_widest(column, [row[i] for row in rows]) for i, column in enumerate(columns)]
    least = [_narrowest(column, widest[i], [row[i] for row in rows]) for i, column in enumerate(columns)]
    shown, below, left_out = _choose(columns, lead, widest, least, width)
    widths = list(widest)
    # Those that wrap become narrower first, and the labels last.
    ranks = [2 if i == lead else 0 if column.wraps else 1 for i, column in enumerate(columns)]
    for rank in sorted(set(ranks)):
        group = [i for i in shown if ranks[i] == rank]
        _shrink(widths, least, shown, group, width)
    excess = _total(widths, shown) - width
    if excess > 0:  # the label alone is too wide
        widths[lead] = max(1, widths[lead] - excess)
    return Layout({i: widths[i] for i in shown}, tuple(sorted(below)), tuple(sorted(left_out)))


def _choose(
    columns: Sequence[Column], lead: int, widest: Sequence[int], least: Sequence[int], width: int
) -> tuple[list[int], list[int], list[int]]:
    """Returns the indices of columns that are shown, printed below their rows, and left out."""
    shown = list(range(len(columns)))
    others = [i for i in shown if i != lead]
    order = sorted(others, key=lambda i: (-columns[i].rank, columns[i].is_number, -i))
    _take(shown, [i for i in order if columns[i].is_extra], widest, width)
    wide = (i for i in others if i in shown and columns[i].wraps and widest[i] > _LEAST_WRAPPED)
    below = _take(shown, sorted(wide, key=lambda i: -widest[i]), least, width)
    left_out = _take(shown, [i for i in order if i in shown], least, width)
    return shown, below, left_out


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[i] for i in shown) + GAP * (len(shown) - 1)


def _take(shown: list[int], candidates: Sequence[int], widths: Sequence[int], width: int) -> list[int]:
    """Takes candidates out of the columns that are shown, until the others fit; returns those."""
    taken = []
    for i in candidates:
        if _total(widths, shown) > width:
            shown.remove(i)
            taken.append(i)
    return taken


def _shrink(
    widths: list[int], least: Sequence[int], shown: Sequence[int], group: Sequence[int], width: int
) -> None:
    """Makes the widest columns of a group narrower, until all fit or the group is at its least."""
    while (over := _total(widths, shown) - width) > 0:
        shrinkable = [i for i in group if widths[i] > least[i]]
        if not shrinkable:
            return
        longest = max(shrinkable, key=widths.__getitem__)
        others = max((widths[i] for i in shrinkable if i != longest), default=0)
        widths[longest] = max(least[longest], widths[longest] - over, min(others, widths[longest] - 1))


def _label(columns: Sequence[Column]) -> int:
    """Returns the index of the column that names the rows: the first one with texts of any length."""
    names = (i for i, column in enumerate(columns) if column.wraps or (column.most or 0) > 3)
    return next(names, 0)


def _as_label(column: Column) -> Column:
    """Returns a column whose texts are shortened less."""
    if column.most is None:
        return column
    least = _LEAST_LABEL if column.least is None else column.least
    return replace(column, most=max(column.most, least), least=least)


def _widest(column: Column, cells: Sequence[str]) -> int:
    from rich.cells import cell_len

    width = max(map(cell_len, cells), default=0)
    if column.most is not None:
        width = min(width, column.most)
    return max(width, cell_len(column.title))


def _narrowest(column: Column, widest: int, cells: Sequence[str]) -> int:
    from rich.cells import cell_len

    if column.is_number:
        return widest
    if not column.wraps:
        return min(widest, _LEAST if column.least is None else column.least)
    words = (cell_len(word) for text in cells for word in text.split())
    return min(widest, max(_LEAST_WRAPPED, min(max(words, default=0), _LONGEST_WORD)))
