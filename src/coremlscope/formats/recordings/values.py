"""Values of an export by id, and its texts, in little memory."""

from __future__ import annotations

from array import array
from typing import Final

from coremlscope.base.errors import UsageError

#: In place of a value that is absent or cannot be read.
MISSING: Final = -1
_HINT = "export the table again with `xcrun xctrace export`, or record for a shorter time"


class NumbersById:
    """Numbers by id. Instruments counts ids from 1, so they are kept as an array; stray ones in a dict."""

    #: Ids that an export may have; 8 bytes are kept for each.
    MOST = 1 << 27
    _GAP = 1 << 16
    _MOST_STRAY = 1 << 18

    def __init__(self) -> None:
        self._dense: array[int] = array("q")
        self._stray: dict[int, int] = {}

    def set(self, index: int, value: int) -> None:
        """Keeps a value; later ones replace earlier ones, and negative ids are ignored.

        Raises:
            UsageError: There are too many.
        """
        size = len(self._dense)
        if 0 <= index < size:
            self._dense[index] = value
        elif size <= index <= size + self._GAP and index < self.MOST:
            self._dense.extend((MISSING,) * (index - size))
            self._dense.append(value)
        elif index >= 0:
            if len(self._stray) >= self._MOST_STRAY:
                raise UsageError("the export has too many ids, or they are damaged", _HINT)
            self._stray[index] = value

    def get(self, index: int) -> int:
        """Returns a value; MISSING if there is none."""
        if 0 <= index < len(self._dense):
            return self._dense[index]
        return self._stray.get(index, MISSING)


class TextsByIndex:
    """Different texts, by index. Those beyond a number of them share one index."""

    #: Characters that are kept of a text.
    LONGEST: Final = 200
    _MOST: Final = 1 << 16
    _OTHERS: Final = "(others)"

    def __init__(self) -> None:
        self._indices: dict[str, int] = {self._OTHERS: 0}

    def index(self, text: str) -> int:
        """Returns the index of a text."""
        kept = text[: self.LONGEST]
        found = self._indices.get(kept)
        if found is None:
            if len(self._indices) >= self._MOST:
                return 0
            found = self._indices[kept] = len(self._indices)
        return found

    def all(self) -> list[str]:
        """Returns the texts by index."""
        return list(self._indices)
