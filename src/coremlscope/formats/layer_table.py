"""Tables of layer types, joined from the rows of families."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar


class _Row(Protocol):
    @property
    def type(self) -> str: ...


_R = TypeVar("_R", bound=_Row)


def join_layers(families: Iterable[Sequence[_R]]) -> dict[str, _R]:
    """Returns the rows of all families by layer type.

    Raises:
        ValueError: Two rows have the same type.
    """
    table: dict[str, _R] = {}
    for row in (row for family in families for row in family):
        if row.type in table:
            raise ValueError(f"duplicate rows for the layer {row.type}")
        table[row.type] = row
    return table
