"""Whole results as JSON, for programs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from coremlscope.base.escaping import json_text
from coremlscope.base.folders import short_names
from coremlscope.base.units import escape_controls
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile, to_json

if TYPE_CHECKING:
    from coremlscope.describe.comparison.profiles import Comparison
    from coremlscope.results.explanation import Explanations
    from coremlscope.results.gate import GateReport
    from coremlscope.results.recording_changes import RecordingChanges
    from coremlscope.results.trace import Trace
    from coremlscope.results.variants import VariantReport
    from coremlscope.results.verification import Verification

#: Results that can be rendered.
Result: TypeAlias = "Profile | ModelSummary | Comparison | Trace | VariantReport | Sequence[Profile]"


#: The keys of paths.
_PATHS = ("path", "file", "model", "reference")


def to_values(
    subject: Result | Explanations | GateReport | RecordingChanges | Verification,
) -> dict[str, Any]:
    """Converts a result to plain JSON values, with the schema's name."""
    if isinstance(subject, (Profile, ModelSummary, Sequence)):
        return to_json(subject)
    return subject.to_json()


def render_json(subject: Result | Explanations | GateReport | RecordingChanges | Verification) -> str:
    """Renders a result as JSON text; infinite numbers become null."""
    return render_values(to_values(subject))


def render_values(values: Any, *, keeps_folders: bool = False) -> str:
    """Renders plain values as JSON text; infinite numbers become null, and absolute paths names."""
    shared = plain(values if keeps_folders else without_folders(values))
    return json_text(json.dumps(shared, ensure_ascii=False, indent=1, allow_nan=False)) + "\n"


def without_folders(values: Any) -> Any:
    """Replaces absolute paths by names, also in texts that mention them: reports are made to be shared."""
    names = {path: name for path, name in short_names(_paths(values)).items() if path != name}
    if not names:
        return values
    known = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    return _convert(values, lambda text: known.sub(lambda found: names[found[0]], text))


def _paths(values: Any) -> Iterator[str]:
    """Yields the paths in plain values."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            if isinstance(value, str) and key in _PATHS:
                yield value
            elif key == "command" and isinstance(value, (list, tuple)):
                yield from map(str, value)
            else:
                yield from _paths(value)
    elif isinstance(values, (list, tuple)):
        for value in values:
            if isinstance(value, (Mapping, list, tuple)):
                yield from _paths(value)


def plain(value: Any) -> Any:
    """Converts values for JSON: tuples become lists, infinite numbers null."""
    return _convert(value, str)


def displayed(value: Any) -> Any:
    """Converts values for a program that displays their texts: as `plain`, without control characters."""
    return _convert(value, partial(escape_controls, keep="\n"))


def _convert(value: Any, convert_text: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return convert_text(value)
    if isinstance(value, Mapping):
        return {convert_text(str(key)): _convert(item, convert_text) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_convert(item, convert_text) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
