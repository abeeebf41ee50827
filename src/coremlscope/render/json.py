"""Whole results as JSON, for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from coremlscope.comparison.profiles import Comparison
from coremlscope.results.explanation import Explanations
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile, to_json
from coremlscope.results.trace import Trace

__all__ = ["Result", "plain", "render_json", "render_values", "to_values"]

#: Results that can be rendered.
Result = Profile | ModelSummary | Comparison | Trace | Sequence[Profile]


def to_values(subject: Result | Explanations) -> dict[str, Any]:
    """Converts a result to plain JSON values, with the schema's name."""
    return subject.to_json() if isinstance(subject, (Comparison, Trace, Explanations)) else to_json(subject)


def render_json(subject: Result | Explanations) -> str:
    """Renders a result as JSON text; infinite numbers become null."""
    return render_values(to_values(subject))


def render_values(values: Any) -> str:
    """Renders plain values as JSON text; infinite numbers become null."""
    return json.dumps(plain(values), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Converts values for JSON: tuples become lists, infinite numbers null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
