"""Splitting of MIL text into tokens.

A tensor type with its dimensions, a constant of one element, and a constant with a flat list of elements are
single tokens: they make up most of a text, and equal ones are read once.
"""

from __future__ import annotations

import itertools
import re

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.base.units import shown
from coremlscope.model import ir

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
#: The rest of the text after a quotation mark without a second one: looking for it once is enough.
_UNENDED = r'"[^"\\]*(?:\\.[^"\\]*)*\\?\Z'
_FLAT_LIST = r'\[[^\[\]{}()<>"=;]*\]'
_SCALAR = r'[^\[\]{}()<>"=;,\s]+'
_TENSOR = rf"tensor\s*<\s*\w+\s*,\s*{_FLAT_LIST}\s*>"
_ELEMENT = rf"(?:{'|'.join(dtype.value for dtype in ir.DType)})(?=[\s()\[\]{{}}<>,;=]|$)"
_TOKEN = re.compile(
    rf"""\s*(
        (?:{_TENSOR}|{_ELEMENT}) (?:\((?:{_STRING}|{_FLAT_LIST}|{_SCALAR})\))?
        | {_STRING}
        | {_UNENDED}
        | {_FLAT_LIST}
        | ->
        | [^\s()\[\]{{}}<>,;="]+
        | \S
    )""",
    re.VERBOSE | re.DOTALL,
)
#: Limits of a text, and so of the memory of its tokens. The longest known texts have a few megabytes.
_MAX_BYTES = 2**28
_MAX_SEPARATORS = 2**25
_END = ""
_HINT = "the file is damaged or incomplete; compile, export or download the model again"


def decode(data: bytes, name: str) -> str:
    """Decodes the bytes of a text.

    Raises:
        CorruptModelError: The bytes are not UTF-8.
        UnsupportedModelError: The text is too long.
    """
    if len(data) > _MAX_BYTES:
        raise UnsupportedModelError(
            f"{shown(name)} has {len(data)} bytes, but only texts of up to {_MAX_BYTES} bytes are read",
            "check that it is the text of a compiled model",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _line_and_column(data[: error.start].decode("utf-8", "replace"))
        raise CorruptModelError(
            f"line {line}, column {column} of {shown(name)} is damaged: the text is not UTF-8", _HINT
        ) from None


class Tokens(list[str]):
    """The tokens of a text. A few empty tokens follow the last one, so that a parser can look ahead.

    Args:
        text: The text.
        name: The name of the file, for error messages.

    Raises:
        UnsupportedModelError: The text is too long.
    """

    def __init__(self, text: str, name: str) -> None:
        # A run of spaces at the end would take quadratic time.
        self._text = text.rstrip()
        self._name = name
        if len(text) > _MAX_SEPARATORS < sum(map(text.count, '()[]{}<>,;="')):
            raise UnsupportedModelError(
                f"{shown(name)} has more than {_MAX_SEPARATORS} brackets and separators",
                "check that it is the text of a compiled model",
            )
        super().__init__(_TOKEN.findall(self._text))
        if self and self[-1].startswith('"') and re.fullmatch(_UNENDED, self[-1], re.DOTALL):
            self[-1] = '"'
        self.extend([_END] * 4)

    def error(self, index: int, problem: str, hint: str = _HINT) -> CorruptModelError:
        """Returns an error with the line and the column of a token."""
        found = next(itertools.islice(_TOKEN.finditer(self._text), index, None), None)
        start = len(self._text) if found is None else found.start(1)
        line, column = _line_and_column(self._text[:start])
        problem = problem if problem.isprintable() else ascii(problem)[1:-1]
        return CorruptModelError(
            f"line {line}, column {column} of {shown(self._name)} is damaged: {problem}", hint
        )

    def unexpected(self, index: int, expected: str) -> CorruptModelError:
        """Returns the error for a token other than the expected one."""
        token = self[index]
        if token == '"':
            return self.error(index, "a string has no end")
        found = f"'{_shortened(token)}'" if token else "the end of the text"
        return self.error(index, f"expected {expected}, found {found}")


def _shortened(token: str) -> str:
    return shown(token if len(token) <= 40 else token[:39] + "…")


def _line_and_column(before: str) -> tuple[int, int]:
    """Returns the line and the column, counted from 1, that follow a text."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")
