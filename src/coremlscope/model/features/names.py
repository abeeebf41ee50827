"""Suggestions for mistyped names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Returns the known name that is most similar to `name`, or None if none is.

    Args:
        name: The mistyped name.
        known: The known names.
        cutoff: The least similarity, from 0 to 1.
    """
    by_key = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), by_key, n=1, cutoff=cutoff)
    return by_key[close[0]] if close else None


def suggest_name(name: str, known: Iterable[str], noun: str) -> str:
    """Returns a hint for an unknown name: a similar known name, or a list of all known names."""
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f"did you mean {near!r}?"
    if not names:
        return f"the model has no {noun}s"
    listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f"the {noun}s are: {listed}" if len(names) > 1 else f"the only {noun} is {listed!r}"
