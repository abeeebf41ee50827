"""Everything, for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ["Result", "plain", "render_json", "render_values"]


class Result(Protocol):
    """What can be told as plain values."""

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        ...


def render_json(subject: Result) -> str:
    """A report as JSON text. Numbers that JSON lacks (infinite ones) become null."""
    return render_values(subject.to_json())


def render_values(values: Any) -> str:
    """Plain values as JSON text, likewise."""
    return json.dumps(plain(values), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """The same values without what JSON lacks: tuples become lists, infinite numbers null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
