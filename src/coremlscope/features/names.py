"""Names that people mistype: which known one they may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["nearest", "suggest_name"]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`; None where nothing is near."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.5)
    return by_folded[close[0]] if close else None


def suggest_name(name: str, known: Iterable[str], noun: str) -> str:
    """A hint for an unknown name: the near one, else all there are."""
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    if not names:
        return f"the model has no {noun}s"
    listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f"the {noun}s are: {listed}" if len(names) > 1 else f"the {noun} is called {listed!r}"
