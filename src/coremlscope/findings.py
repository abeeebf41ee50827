"""Findings: what a person should know about a result, but that does not stop the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Severity"]

Severity = Literal["info", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One remark about a model or a measurement.

    Attributes:
        id: A stable name in kebab case, for filters and for CI.
        severity: `info` or `warning`.
        text: One sentence for people.
        hint: What to do about it; may be empty.
        ops: The ids of the operations concerned; may be empty.
    """

    id: str
    severity: Severity
    text: str
    hint: str = ""
    ops: tuple[str, ...] = ()
