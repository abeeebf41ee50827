"""How results show themselves, without results depending on renderers.

Renderers stand above results. The top package, which knows both, hands the renderers over; they are imported
when a result shows itself for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

__all__ = ["Presented", "present_with"]

_find: Callable[[], Any] | None = None


def present_with(find: Callable[[], Any]) -> None:
    """Sets what results show themselves with.

    Args:
        find: Returns an object with `write_report(result, path)`, `to_dataframe(result)` and
            `notebook_card(result)`.
    """
    global _find
    _find = find


class Presented:
    """A result that shows itself in notebooks, becomes a data frame, and is written as a report."""

    __slots__ = ()

    def write(self, path: str | PathLike[str]) -> None:
        """Writes a report; the suffix selects the format: `.html`, `.md`, `.csv`, `.txt`, `.json` and others.

        Raises:
            UsageError: No format has that suffix.
            OutputError: The file cannot be written.
        """
        _renderers().write_report(self, path)

    def to_dataframe(self) -> Any:
        """The operations, one row each, as a pandas DataFrame.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return _renderers().to_dataframe(self)

    def _repr_html_(self) -> str:
        return str(_renderers().notebook_card(self))


def _renderers() -> Any:
    if _find is None:
        raise RuntimeError("no renderers were set; import coremlscope first")
    return _find()
