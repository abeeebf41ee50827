"""The values that a graph sees, by name: its own, and those of the graphs around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from coremlscope.model.ir import Value

_Known = TypeVar("_Known")


@contextmanager
def nested(scope: dict[str, _Known]) -> Iterator[Callable[[Iterable[Value], Iterable[_Known]], None]]:
    """Yields a function that adds values to a scope; at the end the scope is as it was.

    A copy of the scope for each nested graph would take time in proportion to the square of a program's size.

    Args:
        scope: What is known of the values, by name.
    """
    hidden: dict[str, _Known | None] = {}

    def define(values: Iterable[Value], known: Iterable[_Known]) -> None:
        for value, one in zip(values, known, strict=False):
            hidden.setdefault(value.name, scope.get(value.name))
            scope[value.name] = one

    try:
        yield define
    finally:
        for name, before in hidden.items():
            if before is None:
                scope.pop(name, None)
            else:
                scope[name] = before
