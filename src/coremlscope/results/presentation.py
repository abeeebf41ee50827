"""Lets results render themselves without depending on renderers.

Renderers are in a higher layer than results. The top-level package imports both and provides the renderers,
which are imported when a result is rendered for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

_find: Callable[[], Any] | None = None


def present_with(find: Callable[[], Any]) -> None:
    """Sets the renderers of results.

    Args:
        find: Returns an object with `write_report(result, path)`, `to_dataframe(result)` and
            `notebook_card(result)`.
    """
    global _find
    _find = find


class Presented:
    """A result that can be shown in notebooks, converted to a data frame, and written as a report."""

    __slots__ = ()

    def write(self, path: str | PathLike[str]) -> None:
        """Writes a report; the suffix selects the format: `.html`, `.md`, `.csv`, `.txt`, `.json` and others.

        Raises:
            UsageError: No format has that suffix.
            OutputError: The file cannot be written.
        """
        _renderers().write_report(self, path)

    def to_dataframe(self) -> Any:
        """Returns the operations as a pandas DataFrame, one row each.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return _renderers().to_dataframe(self)

    def _repr_html_(self) -> str:
        return str(_renderers().notebook_card(self))


def _renderers() -> Any:
    if _find is None:
        raise RuntimeError("no renderers are set: import coremlscope first")
    return _find()
