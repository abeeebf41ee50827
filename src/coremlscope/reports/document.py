"""What a report says before it is text: a document of a few kinds of blocks, which every writer knows.

A report is a function from a result to a document. The writers (`terminal.writer`, `markdown.writer`,
`cards`) know blocks and no results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.base.findings import Finding
from coremlscope.base.site import finding_page
from coremlscope.reports.words import FINDING_MARKS, by_severity, describe_finding, finding_hint, plural

#: How a text is meant.
Style: TypeAlias = Literal["", "quiet", "strong", "good", "warning", "error"]


class Strong(str):
    """The text of a cell that stands out: the best of its rows."""

    __slots__ = ()


class Bullet(msgspec.Struct, frozen=True):
    """A figure with its interval, next to its limit.

    Attributes:
        figure: The figure.
        limit: The limit.
        is_least: Whether the figure is to be at least the limit, instead of at most.
    """

    figure: Figure
    limit: float
    is_least: bool = False


#: A text, a share that is drawn as a bar, or a figure next to its limit, for writers that draw.
Cell: TypeAlias = str | float | Bullet
Row: TypeAlias = Sequence[Cell]


#: The least rank of columns that are shown only where there is room for everything.
_EXTRA = 3


class Column(msgspec.Struct, frozen=True):
    """A column of a table.

    Attributes:
        title: Its heading.
        is_number: Whether it is right-aligned. Numbers are never shortened.
        most: Its largest width on a terminal; longer texts are shortened in the middle. Columns of text
            without a largest width wrap.
        least: The width to which texts are shortened on narrow terminals; None for the usual one.
        rank: Where not all columns fit, those with the highest rank are left out first; of those with the
            same rank texts before numbers, and the last first. From 3 on they are extra.
        style: A style of rich.
        is_code: Whether its texts are names or ids, which Markdown shows as code.
    """

    title: str
    is_number: bool = False
    most: int | None = None
    least: int | None = None
    rank: int = 0
    style: str = ""
    is_code: bool = False

    @property
    def is_extra(self) -> bool:
        """Returns whether it is shown only where there is room for everything."""
        return self.rank >= _EXTRA

    @property
    def wraps(self) -> bool:
        """Returns whether long texts continue on the next line."""
        return not self.is_number and self.most is None


class Title(msgspec.Struct, frozen=True):
    """The title of a document or of a subject in it, with a remark."""

    text: str
    remark: str = ""


class Conclusion(msgspec.Struct, frozen=True):
    """What a document begins with: whether all is well.

    Attributes:
        tone: `kept` where it is, `doubt` where it is not sure, `wrong` where something fails.
        word: It in a word or two.
        text: It in a sentence.
        title: What it is about, where that is the title of the document; may be empty.
    """

    tone: Literal["kept", "doubt", "wrong"]
    word: str
    text: str
    title: str = ""

    @property
    def sentence(self) -> str:
        """The sentence with its mark, for writers without colours."""
        return f"{TONE_MARKS[self.tone]} {': '.join(filter(None, (self.title, self.text)))}"


#: The marks of tones.
TONE_MARKS: Mapping[str, str] = {"kept": "✓", "doubt": "!", "wrong": "✗"}


class Heading(msgspec.Struct, frozen=True):
    """The heading of a section, with a remark, which says where its numbers come from."""

    text: str
    remark: str = ""


class Facts(msgspec.Struct, frozen=True):
    """Labels and values; those without a value are not shown."""

    rows: Sequence[tuple[str, str]]
    indent: int = 0


class Table(msgspec.Struct, frozen=True):
    """A table. Columns without content are not shown.

    Attributes:
        columns: Its columns.
        rows: Its rows.
        most: The rows that are shown; the others are counted. None for all.
        noun: What a row is.
        more: How to see the others.
        others: How many rows there are besides, where there are too many to make them all.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    most: int | None = None
    noun: str = "row"
    more: str = ""
    others: int = 0

    @property
    def shown(self) -> Sequence[Row]:
        """The rows that are shown."""
        return self.rows if self.most is None else self.rows[: self.most]

    def rest(self, shown: int) -> str:
        """Returns how many rows are left out where some are shown; empty if none are."""
        left = len(self.rows) + self.others - shown
        return f"and {plural(left, f'more {self.noun}')}{self.more}" if left else ""


class Text(msgspec.Struct, frozen=True):
    """A paragraph."""

    text: str
    style: Style = "quiet"
    indent: int = 2


class Item(msgspec.Struct, frozen=True):
    """An entry of a list.

    Attributes:
        text: The text.
        hint: What to do about it, once or several times.
        details: What is known of it, in lines.
        mark: The mark before it.
        style: How it is meant.
        address: The address of a page on it; may be empty.
        bullet: The figure that it is about, for writers that draw.
    """

    text: str
    hint: str | Sequence[str] = ""
    mark: str = "•"
    style: Style = ""
    address: str = ""
    bullet: Bullet | None = None
    details: Sequence[str] = ()

    @property
    def hints(self) -> Sequence[str]:
        """Its hints."""
        return [one for one in ([self.hint] if isinstance(self.hint, str) else self.hint) if one]


class Drawing(msgspec.Struct, frozen=True):
    """Lines of characters of one width, drawn for a number of columns."""

    draw: Callable[[int], Sequence[str]]


class Folded(msgspec.Struct, frozen=True):
    """A section that is closed where sections can be.

    Attributes:
        title: Its heading.
        remark: Where its numbers come from.
        blocks: What it holds.
        is_extra: Whether terminals, where nothing is closed, leave it out.
    """

    title: str
    remark: str
    blocks: Sequence[Block]
    is_extra: bool = False


class Hint(msgspec.Struct, frozen=True):
    """How to see more: for those who typed a command."""

    text: str


Block: TypeAlias = Title | Conclusion | Heading | Facts | Table | Text | Item | Drawing | Folded | Hint
Document: TypeAlias = Iterable[Block]


def labels(title: str = "", most: int = 60, least: int = 14) -> Column:
    """Returns a column of names of rows, which takes the room that the others leave."""
    return Column(title, style="cyan", most=most, least=least)


def numbers(*titles: str) -> Iterator[Column]:
    """Yields columns of numbers."""
    return (Column(title, is_number=True) for title in titles)


def findings(listed: Iterable[Finding]) -> Iterator[Block]:
    """Yields a section of findings, the most severe first; nothing if there are none."""
    styles: dict[str, Style] = {"error": "error", "warning": "warning"}
    for place, finding in enumerate(by_severity(listed)):
        if not place:
            yield Heading("Findings")
        mark, style = FINDING_MARKS[finding.severity], styles.get(finding.severity, "")
        address = finding_page(finding.id)
        yield Item(describe_finding(finding), finding_hint(finding), mark, style, address)


def join_equal(rows: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Writes rows that differ only in their first cell as one: `all, cpu_and_gpu`."""
    found: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        found.setdefault(tuple(row[1:]), []).append(row[0])
    return [(", ".join(names), *rest) for rest, names in found.items()]


def in_columns(texts: Sequence[str], width: int) -> list[str]:
    """Returns short texts as lines of columns, which are read from top to bottom."""
    widest = max(map(len, texts))
    across = max(1, width // (widest + 2))
    down = -(-len(texts) // across)
    return ["  " + "  ".join(text.ljust(widest) for text in texts[row::down]).rstrip() for row in range(down)]
