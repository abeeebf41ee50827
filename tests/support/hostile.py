"""Results in which every free text is hostile: what strangers could put into names and descriptions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec.structs

from coremlscope.results.plan import Choice, PlannedOps

__all__ = ["HARMLESS", "HOSTILE", "UNSEEN", "with_text"]

#: Ends what it stands in, in every language: a formula, a table, code, HTML, links, blocks, terminal control.
HOSTILE = (
    "=1+1|`</script></summary></details><img src=x onerror=alert(1)><!--[a](javascript:alert(1))"
    "![b](http://e.example/x)\n# H\n- *b* __c__ ~~d~~ **e**"
    "\t&lt;\x1b[31m\x9b2J\x07\u202e\u2066\u061c\x7f;=2;@SUM(A1)"
)
#: As many words.
HARMLESS = "x y z"
#: Characters that no display of a result may contain.
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: Fields that are references or words of ours, not texts.
_OURS = {"id", "schema", "made", "unit", "chips", "rule", "confidence"}

Result = TypeVar("Result")


def with_text(result: Result, text: str) -> Result:
    """Puts a text before every free text of a result, which stays consistent: equal texts stay equal."""
    if not isinstance(result, msgspec.Struct):
        return result
    changes = {
        name: _changed(getattr(result, name), hint, text if name != "path" else _in_name(text))
        for name, hint in _hints(type(result)).items()
        if name not in _OURS and (type(result), name) != (Choice, "backend")
    }
    return msgspec.structs.replace(result, **changes)  # type: ignore[type-var]


def _in_name(text: str) -> str:
    """The text as the beginning of a file's name."""
    return f"folder/{text.replace('/', '∕')}"


@cache
def _hints(type_: type) -> Mapping[str, str]:
    known = set(type_.__struct_fields__)
    return {name: str(hint) for name, hint in get_type_hints(type_).items() if name in known}


def _changed(value: Any, hint: str, text: str) -> Any:
    if isinstance(value, str):
        return value if "Literal" in hint else text + value
    if isinstance(value, PlannedOps):
        return PlannedOps(with_text(op, text) for op in value)
    if isinstance(value, tuple):
        return tuple(_changed(item, hint, text) for item in value)
    if isinstance(value, Mapping):
        return {key: _changed(item, hint, text) for key, item in value.items()}
    return with_text(value, text)
