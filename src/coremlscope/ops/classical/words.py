"""Words that descriptions of classical models share."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.model.ir import Constant

#: Keys, columns and elements that are listed; the rest is counted.
_LISTED = 6


def count_of(number: int, noun: str) -> str:
    """A number of things: `1 tree`, `2 trees`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def list_elements(constant: Constant) -> str:
    """The first elements of an array, and how many there are."""
    items = constant.numpy().reshape(-1)
    first = [repr(item) if isinstance(item, str) else f"{item:g}" for item in items[:_LISTED].tolist()]
    return ", ".join(first) + _rest(len(items))


def list_texts(texts: Sequence[str]) -> str:
    """The first texts, and how many there are."""
    return ", ".join(texts[:_LISTED]) + _rest(len(texts))


def _rest(count: int) -> str:
    return "" if count <= _LISTED else f", … ({count} in all)"
