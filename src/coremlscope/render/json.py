"""Everything, for programs."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coremlscope.profiling.profile import Profile
    from coremlscope.profiling.summary import ModelSummary

__all__ = ["render_json"]


def render_json(subject: Profile | ModelSummary) -> str:
    """A report as JSON text. Numbers that JSON lacks (infinite ones) become null."""
    return json.dumps(_plain(subject.to_json()), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
