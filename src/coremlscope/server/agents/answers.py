"""Short answers: what does not fit into one is kept, and has an id by which it is asked for."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from coremlscope.base.errors import UsageError

#: Characters of an answer, of a text in it, and the least for an element of an array or an object.
_MOST_CHARACTERS, _LONGEST_TEXT, _LEAST = 8_000, 600, 60
#: Results that are kept, the oldest are dropped.
_KEPT = 32


class Answers:
    """The results of calls, by id.

    An id is that of a call and a JSON Pointer (RFC 6901) into its result: `a1/plans/0/ops`.
    """

    def __init__(self) -> None:
        self._results: OrderedDict[str, Any] = OrderedDict()
        self._count = 0

    def keep(self, result: Any) -> dict[str, Any]:
        """Keeps a result; returns its short form with its id."""
        self._count += 1
        name = f"a{self._count}"
        self._results[name] = result = clean(result)
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
            UsageError: There is no such part, or a number is negative.
        """
        if offset < 0 or count < 1:
            raise UsageError("offset is at least 0, and count at least 1", "leave them out for the first 20")
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
        shown = found[offset : offset + count]
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


def clean(value: Any) -> Any:
    """Escapes what a model's names and texts may hide: control characters, line ends, marks of direction.

    Numbers keep four digits: more of them are no help to a reader, and a fifth of an answer.
    """
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, str):
        is_shown = value.isprintable()
        return value if is_shown else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in value)
    if isinstance(value, dict):
        return {clean(key): clean(part) for key, part in value.items()}
    return [clean(part) for part in value] if isinstance(value, list) else value


def shorten(value: Any, name: str, most: int = _MOST_CHARACTERS) -> Any:
    """Returns a short form of a JSON value: what is left out says how much it is, and its id.

    Small parts are whole, and share with the large ones what they do not need.

    Args:
        value: The value.
        name: Its id.
        most: The characters that it may have.
    """
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}… (whole: {name})"
    if not isinstance(value, dict | list) or len(_dumped(value)) <= min(most, _MOST_CHARACTERS):
        return _texts(value, name)
    if isinstance(value, dict):
        return _shorten_object(value, name, most)
    first: list[Any] = []
    for index, part in enumerate(value):
        if most < _LEAST:
            break
        # The first elements are the ones that were asked for.
        first.append(shorten(part, _join(name, index), most * 3 // 4))
        most -= len(_dumped(first[-1]))
    return first if len(first) == len(value) else {"count": len(value), "first": first, "id": name}


def _shorten_object(value: dict[str, Any], name: str, most: int) -> dict[str, Any]:
    shown = list(value)[: max(1, most // _LEAST)] if most >= _LEAST else []
    sizes = {key: len(_dumped(value[key])) for key in shown}
    short = dict[str, Any]()
    for done, key in enumerate(sorted(shown, key=lambda key: sizes[key])):
        short[key] = shorten(value[key], _join(name, key), max(0, most // (len(shown) - done)))
        most -= len(_dumped(short[key])) + len(key)
    kept = {key: short[key] for key in shown}
    return kept if len(kept) == len(value) else {**kept, "…": {"keys": len(value), "id": name}}


def _texts(value: Any, name: str) -> Any:
    """Cuts the long texts in a part that is whole otherwise."""
    if isinstance(value, str):
        return shorten(value, name)
    if isinstance(value, dict):
        return {key: _texts(part, _join(name, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [_texts(part, _join(name, index)) for index, part in enumerate(value)]
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
