"""How results show themselves, without results depending on renderers.

Renderers stand above results. A result looks them up when it is asked to show itself.
"""

from __future__ import annotations

import importlib
from os import PathLike
from typing import Any

__all__ = ["Presented"]


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
    return importlib.import_module("coremlscope.render")
