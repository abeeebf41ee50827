"""How results show themselves in notebooks, and go to pandas.

Cards are plain HTML with inline styles: notebooks cut out scripts and style sheets. Colours are the
notebook's own, so that light and dark themes both suit.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coremlscope.errors import MissingDependencyError
from coremlscope.units import escape_controls

__all__ = ["Grid", "card", "data_frame"]

_LINE = "1px solid rgba(127,127,127,.35)"
_CELL = "padding:2px 10px 2px 0;background:transparent;color:inherit;border:none;"
_BAR = "display:inline-block;height:.7em;background:#3b82c4;border-radius:1px;width:{:.1f}em"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of a card.

    Attributes:
        title: What it shows, and where the numbers come from.
        columns: Titles; those that end with `>` are set flush right.
        rows: Texts; a number is a share, drawn as a bar.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float]]


def card(title: str, remark: str, grids: Sequence[Grid], notes: Sequence[str] = ()) -> str:
    """A result as HTML.

    Args:
        title: What it is a result for.
        remark: What to know first.
        grids: Tables; those without rows are left out.
        notes: Sentences below them.
    """
    parts = [
        '<div style="font-size:13px;line-height:1.45;max-width:60em;overflow-x:auto">',
        f'<div style="font-weight:600;font-size:15px">{_text(title)}</div>',
        f'<div style="opacity:.75">{_text(remark)}</div>',
        *(_grid(grid) for grid in grids if grid.rows),
        *(f'<div style="margin-top:4px">{_text(note)}</div>' for note in notes),
        "</div>",
    ]
    return "".join(parts)


def _text(text: str) -> str:
    return html.escape(escape_controls(text))


def _grid(grid: Grid) -> str:
    sides = ["right" if title.endswith(">") else "left" for title in grid.columns]
    heads = "".join(
        f'<th scope="col" style="{_CELL}text-align:{side};font-weight:400;opacity:.75">'
        f"{_text(title.removesuffix('>'))}</th>"
        for title, side in zip(grid.columns, sides, strict=True)
    )
    rows = "".join(
        f'<tr style="background:transparent;border-top:{_LINE}">{"".join(map(_cell, row, sides))}</tr>'
        for row in grid.rows
    )
    return (
        f'<div style="margin-top:8px;font-weight:600">{_text(grid.title)}</div>'
        f'<table style="border-collapse:collapse;margin:0;color:inherit"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _cell(value: str | float, side: str) -> str:
    style = f"{_CELL}text-align:{side};white-space:nowrap;font-variant-numeric:tabular-nums"
    if isinstance(value, str):
        return f'<td style="{style}">{_text(value)}</td>'
    return f'<td style="{style}"><span style="{_BAR.format(max(0.0, min(value, 1.0)) * 12)}"></span></td>'


def data_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Columns as a pandas DataFrame.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise MissingDependencyError(
            "to_pandas needs pandas, which is not installed", "pip install pandas"
        ) from None
    return pandas.DataFrame(dict(columns))
