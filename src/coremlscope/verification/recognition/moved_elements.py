"""Forms that move elements and change none: shapes, orders, parts, joins, copies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from coremlscope.ir import Array
from coremlscope.verification.recognition.form import SAME_RESULT, Floats, Form, values_read

__all__ = ["copied", "find_order", "joined", "moves"]

#: Elements that are put in any order.
_MOST_ORDERED = 1 << 16
#: Axes whose orders are tried, and places along one axis.
_MOST_AXES, _MOST_PLACES = 6, 512


def moves(given: list[Floats], y: Floats, is_read: list[bool]) -> Iterator[Form]:
    """Yields operations that move elements: other shapes, orders of axes, parts, places."""
    for place, x in values_read(given, is_read):
        reads = {"x": (place,)}
        if x.size == y.size and np.array_equal(x.reshape(-1), y.reshape(-1)):
            yield Form(type="reshape", reads=reads, settings={"shape": np.array(y.shape, np.int32)})
        elif x.size == y.size and x.ndim == y.ndim <= _MOST_AXES:
            for order in itertools.permutations(range(x.ndim)):
                if tuple(x.shape[axis] for axis in order) == y.shape and np.array_equal(
                    np.transpose(x, order), y
                ):
                    yield Form(type="transpose", reads=reads, settings={"perm": np.array(order, np.int32)})
                    break
            else:
                yield from _orders_of_places(x, y, reads)
        elif x.size > y.size:
            yield from _parts(x, y, reads)


def _orders_of_places(x: Floats, y: Floats, reads: Mapping[str, tuple[int, ...]]) -> Iterator[Form]:
    """Yields the choice of other places along one axis, as a flip or a roll makes it."""
    for axis, size in enumerate(x.shape):
        rows, wanted = (np.moveaxis(array, axis, 0).reshape(size, -1) for array in (x, y))
        places = [np.flatnonzero((rows == row).all(1)) for row in wanted] if size <= _MOST_PLACES else []
        if x.shape == y.shape and places and all(len(found) for found in places):
            indices = np.array([found[0] for found in places], np.int32)
            settings: dict[str, Array | str] = {"indices": indices, "axis": np.array(axis, np.int32)}
            yield Form(type="gather", reads=reads, settings=settings)
            return


def _parts(x: Floats, y: Floats, reads: Mapping[str, tuple[int, ...]]) -> Iterator[Form]:
    """Yields the slices along one axis that a value is."""
    for axis, size in enumerate(x.shape):
        rest = math.prod(x.shape) // size
        length = y.size // rest if rest and y.size % rest == 0 else 0
        if not 0 < length < size:
            continue
        rows = np.moveaxis(x, axis, 0)
        kept = [*x.shape[:axis], length, *x.shape[axis + 1 :]]
        if y.size != math.prod(kept):
            continue
        wanted = np.moveaxis(y.reshape(kept), axis, 0)
        for first in range(size - length + 1):
            if np.array_equal(rows[first : first + length], wanted):
                is_dropped = list(y.shape) != kept
                begin, end, drop = [0] * x.ndim, list(x.shape), [False] * x.ndim
                begin[axis], end[axis], drop[axis] = first, first + length, is_dropped
                if not is_dropped or length == 1:
                    settings: dict[str, Array | str] = {
                        "begin": np.array(begin, np.int32),
                        "end": np.array(end, np.int32),
                        "squeeze_mask": np.array(drop),
                    }
                    yield Form(type="slice_by_index", reads=reads, settings=settings)
                return


def joined(given: list[Floats], y: Floats, is_read: list[bool]) -> Iterator[Form]:
    """Yields concatenations and stacks of all arguments."""
    places = tuple(range(len(given)))
    for axis in range(y.ndim) if len(given) > 1 else ():
        for kind, compute in (("concat", np.concatenate), ("stack", np.stack)):
            try:
                made = compute(given, axis)
            except ValueError:
                continue
            if made.shape == y.shape and np.array_equal(made, y):
                settings: dict[str, Array | str] = {"axis": np.array(axis, np.int32)}
                if kind == "concat":
                    settings["interleave"] = np.array(False)
                yield Form(type=kind, reads={"values": places}, settings=settings)


def copied(given: list[Floats], y: Floats, is_read: list[bool]) -> Iterator[Form]:
    """Yields larger values with the same elements: nearest neighbours of images, copies."""
    for place, x in values_read(given, is_read):
        if x.ndim != y.ndim or x.size >= y.size or any(b % a for a, b in zip(x.shape, y.shape, strict=True)):
            continue
        times = [b // a for a, b in zip(x.shape, y.shape, strict=True)]
        if x.ndim == 4 and times[:2] == [1, 1]:
            made = np.repeat(np.repeat(x, times[2], 2), times[3], 3)
            if np.array_equal(made, y):
                sizes = {
                    "scale_factor_height": np.array(times[2], np.float32),
                    "scale_factor_width": np.array(times[3], np.float32),
                }
                yield Form(type="upsample_nearest_neighbor", reads={"x": (place,)}, settings=sizes)
        if np.array_equal(np.tile(x, times), y):
            yield Form(type="tile", reads={"x": (place,)}, settings={"reps": np.array(times, np.int32)})


def find_order(wrong: Array, right: Array) -> Array | None:
    """Returns the places of the elements of one array in another one, both flat.

    Args:
        wrong: An array.
        right: An array of as many elements.

    Returns:
        For each element of `right` its place in `wrong`, flat; None if one is not there, or there are too
        many.
    """
    a, b = (array.astype(np.float64).reshape(-1) for array in (wrong, right))
    if (
        a.size != b.size
        or not 1 < a.size <= _MOST_ORDERED
        or not (np.isfinite(a).all() and np.isfinite(b).all())
    ):
        return None
    order, wanted = np.argsort(a, kind="stable"), np.argsort(b, kind="stable")
    if np.abs(a[order] - b[wanted]).max() > SAME_RESULT * max(1e-30, float(np.abs(b).max())):
        return None
    places = np.empty(a.size, np.int32)
    places[wanted] = order
    return places
