"""Names out of files, made fit for one line of a message."""

from __future__ import annotations

__all__ = ["shown"]

_MAX_LENGTH = 300


def shown(name: str) -> str:
    """The name as it is where it is printable, else escaped; cut where it is very long.

    So no file gets to write to a terminal, or more than its share of a message.
    """
    text = name if name.isprintable() else ascii(name)
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"
