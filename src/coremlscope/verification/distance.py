"""How far two arrays are apart, and which order of axes makes one of the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from coremlscope.model.ir import Array

#: The error, relative to the size of the array, up to which two arrays count as the same in a relation:
#: several roundings to fp16, of which each is 2⁻¹¹.
SAME = 4e-3
#: Elements that a number masks are as near to it, and others smaller by this factor.
_LEVEL = 1e-2
#: The share of a sample of the elements that may lie between a mask and the others.
_MOST_BETWEEN = 0.05
#: Arrays of higher rank are not transposed: 6! orders of axes.
_MOST_AXES = 5
#: Elements of which transposed arrays are compared first.
_SAMPLE = 4096
#: Elements that are compared at a time, so that they stay in the cache.
_BLOCK = 1 << 14


def _numbers(array: Array) -> npt.NDArray[np.float64]:
    return np.asarray(array).astype(np.float64).reshape(-1)


def _floats(array: Array) -> npt.NDArray[np.floating[Any]]:
    """Returns the elements as they are, if they are float32, else as float64."""
    flat = np.asarray(array).reshape(-1)
    return flat.astype(np.float32 if flat.dtype == np.float32 else np.float64, copy=False)


def explains_all(predicted: Array, observed: Array, tolerance: float = SAME) -> bool:
    """Returns whether a prediction holds for each element: integers are equal, and other numbers off by at
    most a share of the largest one, or of the largest one that is not masked.

    Args:
        predicted: What a cause says that a value should be.
        observed: What it is.
        tolerance: The share.
    """
    if np.asarray(predicted).size != np.asarray(observed).size:
        return False
    a, b = _numbers(predicted), _numbers(observed)
    if np.asarray(observed).dtype.kind in "iub":
        return bool((np.rint(a) == b).all())
    with np.errstate(invalid="ignore"):
        holds = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = np.isfinite(a) & np.isfinite(b)
        limits = np.full(b.shape, np.inf)
        known = b[finite]
        for part in [np.ones(known.shape, bool), *(_unmasked(known) if known.size else ())]:
            limit = tolerance * max(1e-30, float(np.abs(known[part]).max(initial=0.0)))
            places = np.flatnonzero(finite)[part]
            limits[places] = np.minimum(limits[places], limit)
        holds |= finite & (np.abs(a - b) <= limits)
    return bool(holds.all())


def _length(numbers: npt.NDArray[np.float64]) -> float:
    """Returns the Euclidean norm, without BLAS, whose threads wait for each other on busy machines."""
    return math.sqrt(float(np.square(numbers).sum()))


def _fast_error(ours: Array, theirs: Array) -> float | None:
    """Returns the relative error of float32 arrays, a block in the cache at a time; None for others, and
    where squares in float32 may be lost or infinite."""
    if ours.dtype != np.float32 or theirs.dtype != np.float32 or ours.size < _BLOCK:
        return None
    a, b, apart = _floats(ours), _floats(theirs), np.empty(_BLOCK, np.float32)
    sums = [0.0, 0.0]
    for start in range(0, a.size, _BLOCK):
        right = b[start : start + _BLOCK]
        off = np.subtract(a[start : start + _BLOCK], right, out=apart[: right.size])
        sums[0] += float(np.einsum("i,i", off, off))
        sums[1] += float(np.einsum("i,i", right, right))
    least = a.size * 1e-20
    is_safe = (sums[0] == 0 or least < sums[0] < 1e30) and least < sums[1] < 1e30
    return math.sqrt(sums[0] / sums[1]) if is_safe else None


@np.errstate(over="ignore", invalid="ignore")
def relative_error(ours: Array, theirs: Array) -> float:
    """Returns the root mean square of the difference over that of `theirs`.

    Elements that are infinite or NaN must be so in both arrays, with the same sign; else the error is
    infinite. Arrays are compared in the order of their elements; their shapes may differ.
    """
    if np.asarray(ours).size != np.asarray(theirs).size:
        return math.inf
    fast = _fast_error(np.asarray(ours), np.asarray(theirs))
    if fast is not None:
        return fast
    a, b = _numbers(ours), _numbers(theirs)
    difference, size = _length(a - b), _length(b)
    if not (math.isfinite(difference) and math.isfinite(size)):
        odd = ~(np.isfinite(a) & np.isfinite(b))
        if not np.array_equal(a[odd], b[odd], equal_nan=True):
            return math.inf
        a, b = a[~odd], b[~odd]
        difference, size = _length(a - b), _length(b)
    if difference == 0:
        return 0.0
    return difference / size if size else math.inf


def unmasked_error(ours: Array, theirs: Array) -> float:
    """Returns the relative error of the elements that no large number masks, if that is larger.

    A mask adds a number like −10,000, beside which the differences of all other elements are small.
    """
    whole = relative_error(ours, theirs)
    if np.asarray(ours).size != np.asarray(theirs).size or not math.isfinite(whole) or whole == 0:
        return whole
    a, b = _floats(ours), _floats(theirs)
    return max([whole, *(relative_error(a[rest], b[rest]) for rest in _unmasked(b))])


def _unmasked(numbers: npt.NDArray[np.floating[Any]]) -> Iterator[npt.NDArray[np.bool_]]:
    """Yields the places beside which a number at one end is large, and held by many elements."""
    sample = numbers[:: max(1, numbers.size // _SAMPLE)]
    for level in (float(numbers.min()), float(numbers.max())):
        # Beside a mask, few elements are neither near it nor much smaller.
        between = (np.abs(sample) > abs(level) / 10) & (np.abs(sample - level) > _LEVEL * abs(level))
        if level == 0 or between.mean() > _MOST_BETWEEN:
            continue
        rest = np.abs(numbers - level) > _LEVEL * abs(level)
        size = float(np.sqrt(np.mean(numbers[rest] ** 2))) if rest.any() else math.inf
        if rest.mean() <= 1 - _LEVEL and abs(level) >= size / _LEVEL:
            yield rest


def find_unmasked(array: Array) -> npt.NDArray[np.bool_]:
    """Returns where an array holds no large number that masks the others; see `unmasked_error`.

    Args:
        array: Finite numbers of any shape, at least one.

    Returns:
        True where it does not, in the shape of the array.
    """
    found = np.ones(array.size, bool)
    for rest in _unmasked(_numbers(array)):
        found &= rest
    return found.reshape(array.shape)


def largest_difference(ours: Array, theirs: Array) -> tuple[float, float]:
    """Returns the largest absolute difference, and the largest magnitude of `theirs`, of finite elements.

    The difference is infinite if elements that are infinite or NaN are not so in both arrays.
    """
    a, b = _numbers(ours), _numbers(theirs)
    finite = np.isfinite(a) & np.isfinite(b)
    size = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    if not finite.all() and not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return math.inf, size
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)), size


def cosine(ours: Array, theirs: Array) -> float:
    """Returns the cosine of the angle between two arrays; NaN if one of them is zero or not finite."""
    a, b = _numbers(ours), _numbers(theirs)
    with np.errstate(all="ignore"):
        return float(a @ b / (_length(a) * _length(b)))


def find_layout(ours: Array, theirs: Array, tolerance: float) -> tuple[int, ...] | None:
    """Finds the order of axes in which one array equals another.

    Args:
        ours: The one array, of any shape.
        theirs: The other, of any shape of as many elements.
        tolerance: The largest relative error; see `relative_error`.

    Returns:
        The argument of `np.transpose` for `ours`, empty if the elements are in the same order already; None
        if there is none, or if the numbers of elements differ.
    """
    if ours.size != theirs.size or not ours.size:
        return None
    flat = theirs.reshape(-1)
    step = max(1, flat.size // _SAMPLE)
    is_near = step == 1 or relative_error(ours.reshape(-1)[::step], flat[::step]) <= 2 * tolerance
    if is_near and relative_error(ours, theirs) <= tolerance:
        return ()
    axes = [axis for axis, size in enumerate(ours.shape) if size > 1]
    target = tuple(size for size in theirs.shape if size > 1)
    if not 2 <= len(axes) <= _MOST_AXES:
        return None
    for order in itertools.permutations(axes):
        if order == tuple(axes) or tuple(ours.shape[axis] for axis in order) != target:
            continue
        full = _whole_order(order, axes, ours.ndim)
        moved = np.transpose(ours, full).reshape(-1)
        if relative_error(moved[::step], flat[::step]) > 2 * tolerance:
            continue
        if relative_error(moved, flat) <= tolerance:
            return full
    return None


def _whole_order(order: tuple[int, ...], axes: list[int], rank: int) -> tuple[int, ...]:
    """Returns an order of all axes in which those of one element stay where they are."""
    full = list(range(rank))
    for place, axis in zip(axes, order, strict=True):
        full[place] = axis
    return tuple(full)


def finite(number: float | None) -> float | None:
    """Returns a number that is finite, else None: JSON has no others."""
    return number if number is not None and math.isfinite(number) else None
