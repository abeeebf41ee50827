"""Names, descriptions and labels come from strangers: in every output language they stay text.

There is one function for each language; `units.escape_controls` is that of terminals. All others but the one
for JSON apply it first. JSON keeps every value: what a terminal would obey is written as `\\u009b`.
"""

from __future__ import annotations

import os
import re
from typing import Any

from coremlscope.base.units import escape_controls

#: Control characters and characters that change the direction of text, which JSON allows in strings.
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb]")
#: Beginnings of cells that spreadsheets take for a formula, also in the wide forms of East Asian keyboards:
#: in countries with decimal commas also after a semicolon, which separates cells there.
_FORMULA = re.compile(r"(^|;)(?=\s*[=+\-@＝＋－＠])")
#: Beginnings of blocks of Markdown: headings, lists, quotations, rules, and the underlines of headings.
_BLOCK = re.compile(r"^(?=#{1,6}(?:\s|$)|[-+](?:\s|$)|>|-{2,}|={2,}|:?-+:?\s*$)")
_NUMBERED = re.compile(r"^(\d{1,9})(?=[.)](?:\s|$))")
#: Emphasis, code and struck text; an underscore within a word is none.
_INLINE = re.compile(r"[\\`*|]|~(?=~)|(?<![^\W_])_|_(?![^\W_])|(?<=\])[(\[:]")
_ENTITY = re.compile(r"&(?=#?\w+;)")


def json_text(text: str) -> str:
    """Returns JSON text with the same values that is safe to print."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def path_text(path: os.PathLike[str]) -> str:
    """Returns a path as text that can be encoded: a byte of its name that is not UTF-8 becomes `\\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def csv_cell(value: Any) -> Any:
    """Returns a cell that a spreadsheet does not take for a formula: an apostrophe comes before it.

    Numbers stay numbers.
    """
    return _FORMULA.sub(r"\1'", escape_controls(value)) if isinstance(value, str) else value


def html_text(text: str) -> str:
    """Escapes text for HTML, in elements and in quoted attributes."""
    import html

    return html.escape(escape_controls(text))


def markdown_text(text: str) -> str:
    """Escapes one line of text for Markdown, in paragraphs and in tables.

    Addresses become links in many places, but to where they say.
    """
    text = escape_controls(text.replace("\r", "")).strip()
    text = _ENTITY.sub("&amp;", _INLINE.sub(r"\\\g<0>", text)).replace("<", "&lt;")
    return _NUMBERED.sub(r"\1\\", _BLOCK.sub(r"\\", text))


class MarkdownCode(str):
    """Text that is formatted as code; see `markdown_code`."""

    __slots__ = ()


def markdown_code(text: str) -> MarkdownCode:
    """Formats a name as code; an empty name as nothing."""
    shown = escape_controls(text).replace("`", "ʼ")
    return MarkdownCode(f"`{shown}`" if shown.strip() else "")


def markdown_cell(text: str) -> str:
    """Escapes text for a table, except a name that is formatted as code."""
    return text.replace("|", "\\|") if isinstance(text, MarkdownCode) else markdown_text(text)
