"""Findings: remarks about a result that do not stop the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Severity"]

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One remark about a model or a measurement.

    Attributes:
        id: A stable identifier in kebab case, for filters and CI.
        severity: `info`, `warning`, or `error` for a part of the work that failed.
        text: One sentence for the user.
        hint: A suggested action; may be empty.
        ops: The ids of the affected operations; may be empty.
        exit_code: The exit code of the error, where the severity is `error`.
    """

    id: str
    severity: Severity
    text: str
    hint: str = ""
    ops: tuple[str, ...] = ()
    exit_code: int = 0
