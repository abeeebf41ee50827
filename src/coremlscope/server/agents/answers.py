"""Short answers: what does not fit into one is kept, and has an id by which it is asked for."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from coremlscope.base.errors import UsageError

#: Characters of an answer; elements of arrays that are tried to fit it, the most first.
_MOST_CHARACTERS = 8_000
_ELEMENTS = (20, 8, 5, 3, 2, 1, 0)
_LONGEST_TEXT = 600
#: An object with more keys is one of columns or a table: its first keys are shown.
_MOST_KEYS = 40
#: Results that are kept, the oldest are dropped.
_KEPT = 32


class Answers:
    """The results of calls, by id.

    An id is that of a call and a JSON Pointer (RFC 6901) into its result: `a1/functions/main/operations`.
    """

    def __init__(self) -> None:
        self._results: OrderedDict[str, Any] = OrderedDict()
        self._count = 0

    def keep(self, result: Any) -> dict[str, Any]:
        """Keeps a result; returns its short form with its id."""
        self._count += 1
        name = f"a{self._count}"
        self._results[name] = result
        while len(self._results) > _KEPT:
            self._results.popitem(last=False)
        return {"id": name, "result": shorten(result, name)}

    def more(self, wanted: str, offset: int = 0, count: int = 20, find: str = "") -> dict[str, Any]:
        """Returns a part of a kept result.

        Args:
            wanted: The id of the part.
            offset: For an array or an object: the first element.
            count: The number of elements.
            find: Only elements that contain this text.

        Raises:
            UsageError: There is no such part.
        """
        name, *steps = wanted.split("/")
        if name not in self._results:
            raise UsageError(f"there is no answer {name!r}", f"ask again; the last {_KEPT} answers are kept")
        part = self._results[name]
        for step in steps:
            part = _step(part, step.replace("~1", "/").replace("~0", "~"), wanted)
        if not isinstance(part, dict | list):
            return {"id": wanted, "result": part}
        if isinstance(part, dict) and not offset and not find:
            return {"id": wanted, "result": shorten(part, wanted)}
        pairs = list(part.items() if isinstance(part, dict) else enumerate(part))
        found = [(key, value) for key, value in pairs if find.lower() in f"{key} {_dumped(value)}".lower()]
        shown = found[max(0, offset) : max(0, offset) + max(1, count)]
        elements = [{"id": _join(wanted, key), "value": value} for key, value in shown]
        fitting = len(elements)
        while fitting > 1 and len(_dumped(elements[:fitting])) > _MOST_CHARACTERS:
            fitting -= 1
        first = [{**one, "value": shorten(one["value"], one["id"])} for one in elements[:fitting]]
        after = offset + fitting
        return {
            "id": wanted,
            "found": len(found),
            "elements": first,
            "next_offset": after if after < len(found) else None,
        }


def shorten(value: Any, name: str) -> Any:
    """Returns a short form of a JSON value: what is left out says how much it is, and its id.

    Args:
        value: The value.
        name: Its id.
    """
    for most in _ELEMENTS:
        short = _cut(value, name, most)
        if len(_dumped(short)) <= _MOST_CHARACTERS:
            break
    return short


def _cut(value: Any, name: str, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}… (whole: {name})"
    if isinstance(value, dict):
        keys = list(value)[: _MOST_KEYS if most else 10]
        short = {key: _cut(value[key], _join(name, key), most) for key in keys}
        return {**short, "…": {"keys": len(value), "id": name}} if len(keys) < len(value) else short
    if isinstance(value, list):
        first = [_cut(one, _join(name, index), most) for index, one in enumerate(value[:most])]
        return first if len(first) == len(value) else {"count": len(value), "first": first, "id": name}
    return value


def _join(name: str, key: object) -> str:
    return f"{name}/{str(key).replace('~', '~0').replace('/', '~1')}"


def _step(part: Any, key: str, wanted: str) -> Any:
    if isinstance(part, dict) and key in part:
        return part[key]
    if isinstance(part, list) and key.isdecimal() and int(key) < len(part):
        return part[int(key)]
    known = f"it has {', '.join(list(part)[:12])}" if isinstance(part, dict) else "see the answer before"
    raise UsageError(f"there is no {key!r} in {wanted!r}", known)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
