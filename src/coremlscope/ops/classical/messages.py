"""Decodes parts that the messages of several classical models share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from coremlscope.base.errors import CorruptModelError
from coremlscope.base.units import shown
from coremlscope.model import ir, schema
from coremlscope.model.schema import Message

#: The largest feature size that is plausible. It keeps one wrong number in a file from allocating more.
MOST_ELEMENTS = 2**24
_DAMAGED = "the file is damaged or was written by a faulty tool; export or download the model again"


def require(is_met: bool, kind: str, what: str) -> None:
    """Raises an error that begins with "the (kind) has" unless a condition is met.

    Raises:
        CorruptModelError: The condition is not met.
    """
    if not is_met:
        raise CorruptModelError(f"the {kind} has {shown(what)}", _DAMAGED)


def name_of(number: int, enumeration: str, kind: str) -> Any:
    """The name of an enumeration value of the specification.

    Args:
        number: The value.
        enumeration: The enumeration's full name: `Normalizer.NormType`.
        kind: The model type, for errors.

    Raises:
        CorruptModelError: The enumeration has no such value.
    """
    name = schema.enum_names(enumeration).get(number)
    require(name is not None, kind, f"an unknown {enumeration.rpartition('.')[2]} ({number})")
    return name


def read_labels(message: Message, oneof: str = "ClassLabels") -> tuple[str | int, ...]:
    """Class labels, or another field that is a vector of strings or a vector of integers."""
    field = message.WhichOneof(oneof)
    return () if field is None else tuple(getattr(message, field).vector)


def read_keys(message: Message, oneof: str, kind: str) -> ir.Constant:
    """A vector of distinct strings or integers.

    Raises:
        CorruptModelError: The vector is absent, or holds a key twice.
    """
    require(message.WhichOneof(oneof) is not None, kind, f"no {oneof}")
    return keys_of(read_labels(message, oneof), message.WhichOneof(oneof).startswith("string"), kind)


def keys_of(keys: Iterable[str | int], are_strings: bool, kind: str) -> ir.Constant:
    """Strings or integers as a constant.

    Raises:
        CorruptModelError: A key occurs twice.
    """
    items = list(keys)
    seen: set[str | int] = set()
    for key in items:
        require(key not in seen, kind, f"{key!r} twice")
        seen.add(key)
    if are_strings:
        array = np.empty(len(items), object)
        array[:] = items
        return ir.constant(array, ir.DType.STRING)
    return ir.constant(np.array(items, np.int64))


def doubles(values: Iterable[float]) -> ir.Constant:
    """An fp64 constant."""
    return ir.constant(np.array(list(values), np.float64))


def indices(values: Iterable[int], limit: int, kind: str, what: str) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Numbers below a limit, as int32.

    Args:
        values: The numbers.
        limit: The exclusive upper bound of the numbers; at most 2³¹.
        kind: The model type, for errors.
        what: The meaning of a number, for errors: `the feature`.

    Raises:
        CorruptModelError: A number is negative or too large.
    """
    items = list(values)
    worst = max(items, default=0)
    lowest = min(items, default=0)
    limit = min(limit, 2**31)
    require(lowest >= 0 and worst < limit, kind, f"{what} {worst if lowest >= 0 else lowest} of {limit}")
    return np.array(items, np.int32)
