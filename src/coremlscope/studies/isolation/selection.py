"""Selecting units of a model by id, name, range or type."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from coremlscope.base.errors import UsageError
from coremlscope.base.units import shown
from coremlscope.results.isolation import IsolatedUnit

_RANGE = ".."
_LISTED = 3


def select_units(
    units: Sequence[IsolatedUnit],
    *,
    ops: Sequence[str] = (),
    span: str | None = None,
    type_: str | None = None,
) -> list[int]:
    """Returns the indices of the units that one of `ops`, `span` and `type_` selects, in order.

    Args:
        units: The units of a model.
        ops: Ids or names.
        span: The first and the last one, both included: `main/3..main/9`; without one of them from the start
            or to the end.
        type_: Apple's name of a type.

    Raises:
        UsageError: Nothing has that id, name or type.
    """
    if span is not None:
        return _select_span(units, span)
    if type_ is not None:
        found = [index for index, unit in enumerate(units) if unit.type == type_]
        if not found:
            types = list(dict.fromkeys(unit.type for unit in units))
            raise UsageError(
                f"nothing of the type {shown(type_)!r} can be isolated", _suggest(type_, types, "types: ")
            )
        return found
    return sorted({find_unit(units, name) for name in ops})


def find_unit(units: Sequence[IsolatedUnit], name: str) -> int:
    """Returns the index of a unit by its id or name.

    Raises:
        UsageError: There is none, or several have that name.
    """
    by_id = [index for index, unit in enumerate(units) if unit.id == name]
    found = by_id or [index for index, unit in enumerate(units) if unit.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(units[index].id for index in found[:_LISTED])
        raise UsageError(f"{len(found)} operations have the name {shown(name)!r}", f"give an id: {ids}")
    outer = next((unit for unit in units if name.startswith(f"{unit.id}/")), None)
    if outer is not None and outer.id:
        raise UsageError(
            f"{shown(name)} is inside a block of {outer.id}, and runs any number of times",
            f"isolate {outer.id}, the {outer.type} around it",
        )
    _check_inside(units, name)
    raise UsageError(
        f"no operation with the id or name {shown(name)!r} can be isolated",
        _suggest(name, [key for unit in units for key in (unit.id, unit.name)], "")
        or "constants belong to the operations that read them; `coremlscope inspect MODEL --ops` lists all",
    )


def _select_span(units: Sequence[IsolatedUnit], span: str) -> list[int]:
    first, dots, last = span.partition(_RANGE)
    if not dots:
        raise UsageError(f"{shown(span)!r} is not a range", "write it as FIRST..LAST: main/3..main/9")
    begin = _end_of_span(units, first, 1) if first else 0
    end = _end_of_span(units, last, -1) if last else len(units) - 1
    if end < begin:
        raise UsageError(
            f"the range {shown(span)} is empty: {shown(last)} precedes {shown(first)}",
            f"did you mean {shown(last)}..{shown(first)}?",
        )
    return list(range(begin, end + 1))


def _end_of_span(units: Sequence[IsolatedUnit], name: str, step: int) -> int:
    """Returns the index of a unit; for the id of a constant that of the next one inside the range.

    Args:
        units: The units of a model.
        name: An id or a name.
        step: 1 for the beginning of a range, -1 for its end.
    """
    before, after = _around(units, name)
    found = after if step > 0 else before
    return find_unit(units, name) if found is None else found


def _check_inside(units: Sequence[IsolatedUnit], name: str) -> None:
    """Raises `UsageError` for the id of a constant or a weight, or of a step of a layer."""
    near = [units[index] for index in _around(units, name) if index is not None]
    if near:
        raise UsageError(
            f"{shown(name)} cannot be isolated alone: constants, weights and steps of a layer belong to an "
            "operation",
            f"next to it: {' and '.join(f'{unit.id} ({unit.type})' for unit in near)}",
        )


def _around(units: Sequence[IsolatedUnit], name: str) -> tuple[int | None, int | None]:
    """Returns the units before and after an id that is no unit's own; None twice if there is no such id."""
    stem, _, number = name.rpartition("/")
    ids = [unit.id.rpartition("/") for unit in units]
    places = [int(last) if first == stem and last.isdecimal() else None for first, _, last in ids]
    known = [place for place in places if place is not None]
    if not number.isdecimal() or int(number) in known or not known or int(number) > max(known):
        return None, None
    before = [i for i, at in enumerate(places) if at is not None and at < int(number)]
    after = [i for i, at in enumerate(places) if at is not None and at > int(number)]
    return before[-1] if before else None, after[0] if after else None


def _suggest(name: str, known: Sequence[str], otherwise: str) -> str:
    near = difflib.get_close_matches(name, known, n=_LISTED)
    if near:
        return f"did you mean {' or '.join(map(shown, near))}?"
    return f"{otherwise}{', '.join(known)}" if otherwise else ""
