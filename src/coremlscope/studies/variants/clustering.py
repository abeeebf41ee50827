"""Clusters numbers exactly: the same sums of squares as coremltools' clustering, in less time.

Clusters of sorted numbers are intervals. From a division of coarse groups on, all boundaries are placed again
at once, each between its two neighbours, by dynamic programming, until none moves. Intervals that this does
not change are the best of all. Proof: costs of intervals have the inequality of Monge. Let Q be better than
P, and ahead of it by two boundaries or more somewhere. There, its boundaries and those of P, numbered one
higher, can be exchanged: the minima of both, and the maxima, are divisions whose costs are not larger in sum,
and neither is as far ahead of P as Q was. By induction one that lies between the neighbours of P would be
better than P.

Several arrays of numbers are divided side by side, since most of the time goes into starting operations of
NumPy on few elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from coremlscope.model.ir import Array

_Places = npt.NDArray[np.intp]
_Numbers = npt.NDArray[np.float64]

#: Coarse groups of values for each cluster, and how many rows are between those that are computed first.
_GROUPS, _STRIDE = 4, 4
#: Different values that are divided side by side.
_MOST_VALUES = 1 << 19
#: The share of all squares that clusters leave, at least, where rounding in float64 cannot matter.
_LEAST = 1e-8
#: The bits of a negative zero in half precision, and the first ones of those that are not finite.
_NEGATIVE_ZERO, _NOT_FINITE = 0x8000, 0x7C00
_HALVES = 1 << 16


def cluster_values(weights: Sequence[Array], bits: int) -> list[tuple[Array, Array] | None]:
    """Clusters the elements of each of several float16 arrays.

    Args:
        weights: The arrays, of any shapes.
        bits: The bits of an index.

    Returns:
        For each array a table, float64[2 ** bits] in ascending order with zeros at the end, and the index of
        each element, flat. None for one that contains what is not finite, and where rounding decides, since
        values are of very different sizes.
    """
    found: list[tuple[Array, Array] | None] = [None] * len(weights)
    waiting: list[tuple[int, Array, Array, Array]] = []
    size = 0
    for number, weight in enumerate(weights):
        known = count_values(weight)
        if known is not None:
            waiting.append((number, *known))
            size += len(known[0])
        if waiting and (size >= _MOST_VALUES or number == len(weights) - 1):
            divisions = divide([(values, counts) for _, values, _, counts in waiting], 1 << bits)
            for (place, values, places, counts), edges in zip(waiting, divisions, strict=True):
                if edges is not None:
                    found[place] = _table_of(values, places, counts, edges, 1 << bits)
            waiting, size = [], 0
    return found


def _table_of(values: Array, places: Array, counts: Array, edges: Array, entries: int) -> tuple[Array, Array]:
    table = np.zeros(entries)
    numbers, weights = values.tolist(), counts.tolist()
    for place, (first, last) in enumerate(pairwise(edges.tolist())):
        # As coremltools sums, since halves between two numbers of float16 are rounded by the last bit.
        mean, total = 0.0, 0
        for number, weight in zip(numbers[first:last], weights[first:last], strict=True):
            total += weight
            mean += (number - mean) * weight / total
        table[place] = mean
    return table, np.repeat(np.arange(len(edges) - 1), np.diff(edges))[places]


def count_values(weight: Array) -> tuple[Array, Array, Array] | None:
    """Returns what `numpy.unique` does of a float16 array, with the places and counts of values.

    Args:
        weight: An array of any shape.

    Returns:
        The values in ascending order, the place of each element's value among them, flat, and how often each
        value occurs; zeros of both signs are one value. None where an element is not finite.
    """
    bits = np.ascontiguousarray(weight).view(np.uint16).reshape(-1)
    counts = np.bincount(bits, minlength=_HALVES)
    if counts[_infinite()].any():
        return None
    if counts[0]:
        counts[0] += counts[_NEGATIVE_ZERO]
    order = _ascending()
    present = order[(counts[order] > 0) & ((order != _NEGATIVE_ZERO) | (counts[0] == 0))]
    places = np.zeros(_HALVES, np.intp)
    places[present] = np.arange(present.size)
    if counts[0]:
        places[_NEGATIVE_ZERO] = places[0]
    return present.astype(np.uint16).view(np.float16), places[bits], counts[present]


@cache
def _infinite() -> Array:
    """All 16-bit patterns that are not a finite number."""
    patterns = np.arange(_HALVES)
    return patterns[(patterns & 0x7FFF) >= _NOT_FINITE]


@cache
def _ascending() -> Array:
    """All 16-bit patterns of finite numbers, in the order of what they mean in half precision."""
    negative = np.arange((_NEGATIVE_ZERO | _NOT_FINITE) - 1, _NEGATIVE_ZERO - 1, -1)
    return np.concatenate([negative, np.arange(_NOT_FINITE)])


class _Sums(msgspec.Struct, frozen=True, eq=False):
    """Sums over the values before each place, of all arrays one after the other.

    Attributes:
        counts: Of how often they occur.
        weighted: Of values times counts.
    """

    counts: _Numbers
    weighted: _Numbers


class _Windows(msgspec.Struct, frozen=True, eq=False):
    """Where a boundary of each array may lie: the first and last place, and where its rows begin.

    Rows of all windows are one after the other.
    """

    first: _Places
    last: _Places

    @property
    def rows(self) -> _Places:
        return self.last - self.first + 1

    @property
    def offset(self) -> _Places:
        rows = self.rows
        return np.cumsum(rows) - rows


def divide(numbers: Sequence[tuple[Array, Array]], clusters: int) -> list[_Places | None]:
    """Returns where clusters of sorted numbers begin and end, with the least sum of squared differences.

    Args:
        numbers: For each array its different values, ascending: float[n], and how often each occurs: int[n].
        clusters: How many clusters; where there are fewer values, each is one.

    Returns:
        int[clusters + 1], from 0 to n, for each array; None where rounding decides, since values are of very
        different sizes.
    """
    found: list[_Places | None] = [
        np.arange(len(values) + 1) if len(values) <= clusters else None for values, _ in numbers
    ]
    open_ = [place for place, edges in enumerate(found) if edges is None]
    if not open_:
        return found
    sums, grids, totals = [], [], []
    for place in open_:
        values, weights = (one.astype(np.float64) for one in numbers[place])
        values -= np.dot(values, weights) / weights.sum()
        sums.append((np.append(0.0, np.cumsum(weights)), np.append(0.0, np.cumsum(values * weights))))
        grids.append(_grid(values, weights, clusters))
        totals.append(np.dot(values * values, weights))
    coarse = [(counts[grid], weighted[grid]) for (counts, weighted), grid in zip(sums, grids, strict=True)]
    groups = [np.linspace(0, len(grid) - 1, clusters + 1).astype(np.intp) for grid in grids]
    unknown = [-np.inf] * len(sums)
    groups, _ = _settle(coarse, groups, unknown)
    edges, low, high = (
        [grid[np.clip(one + step, 0, len(grid) - 1)] for grid, one in zip(grids, groups, strict=True)]
        for step in (0, -1, 1)
    )
    edges, explained = _settle(sums, *_settle(sums, edges, unknown, (low, high)))
    for place, one, total, reached in zip(open_, edges, totals, explained, strict=True):
        found[place] = None if total - reached < _LEAST * total else one
    return found


def _grid(values: _Numbers, weights: _Numbers, clusters: int) -> _Places:
    """Returns where groups of values begin and end, which are as dense as the best clusters of many are."""
    shares: _Numbers = np.multiply(weights, np.square(np.gradient(values)))
    density = np.cumsum(np.cbrt(shares))
    cuts = np.searchsorted(density, np.linspace(0, density[-1], _GROUPS * clusters + 1)[1:-1])
    grid = np.unique(np.concatenate([[0], cuts, [len(values)]]))
    return grid if len(grid) > 2 * clusters else np.arange(len(values) + 1)


def _settle(
    sums: Sequence[tuple[_Numbers, _Numbers]],
    edges: Sequence[_Places],
    explained: Sequence[float],
    within: Sequence[Sequence[_Places]] = (),
) -> tuple[list[_Places], list[float]]:
    """Places boundaries again until that explains no more.

    Args:
        sums: The sums of each array.
        edges: Its boundaries.
        explained: How much of the squares they are known to explain.
        within: The least and the largest places of boundaries; none for up to those next to them.

    Returns:
        The boundaries, and how much they explain.
    """
    found, known = list(edges), list(explained)
    moving = list(range(len(sums)))
    while moving:
        sizes = [len(sums[one][0]) for one in moving]
        origins: _Places = (np.cumsum(sizes) - np.array(sizes))[:, None].astype(np.intp)
        joined = _Sums(*(np.concatenate([sums[one][part] for one in moving]) for part in (0, 1)))
        limits = [np.array([side[one] for one in moving]) + origins for side in within]
        places, reached = _place_again(np.array([found[one] for one in moving]) + origins, limits, joined)
        still = []
        for one, better, value in zip(moving, places - origins, reached.tolist(), strict=True):
            if value > known[one]:
                known[one] = value
                if not np.array_equal(better, found[one]):
                    found[one] = better
                    still.append(one)
        moving = still
    return found, known


def _place_again(edges: _Places, within: Sequence[_Places], sums: _Sums) -> tuple[_Places, _Numbers]:
    """Returns the best boundaries that lie each between its neighbours, and how much they explain.

    Args:
        edges: int[arrays, clusters + 1], places in the sums.
        within: The least and the largest places; none for no other limits.
        sums: The sums.
    """
    count, begin, end = edges.shape[1] - 1, edges[:, 0], edges[:, -1]
    best = np.zeros(len(edges))
    before = _Windows(begin, begin)
    choices: list[tuple[_Windows, _Places]] = []
    for place in range(1, count + 1):
        if place == count:
            window = _Windows(end, end)
        else:
            first = np.maximum(edges[:, place - 1], begin + place)
            last = np.minimum(edges[:, place + 1], end - (count - place))
            if within:
                first, last = np.maximum(first, within[0][:, place]), np.minimum(last, within[1][:, place])
            window = _Windows(first, last)
        best, choice = _extend(best, before, window, sums)
        choices.append((window, choice))
        before = window
    better = [end]
    for window, choice in reversed(choices):
        better.append(choice[better[-1] - window.first + window.offset])
    return np.stack(better[::-1], axis=1), best


def _extend(best: _Numbers, before: _Windows, window: _Windows, sums: _Sums) -> tuple[_Numbers, _Places]:
    """Adds an interval that ends at each place of a window.

    The best begin of an interval never falls while its end rises. So every few ends are computed first, and
    bound those between.

    Args:
        best: What the intervals before explain at most, by where they end.
        before: Where they may end.
        window: Where the new one may end.
        sums: The sums.

    Returns:
        What all explain at most, and where the last one begins, for each place of the window.
    """
    rows, offset, shift = window.rows, window.offset, before.offset - before.first
    begins, most = np.empty(rows.sum(), np.intp), np.empty(rows.sum())
    strides = [1]
    while strides[-1] * _STRIDE < rows.max():
        strides.append(strides[-1] * _STRIDE)
    for above, stride in pairwise([0, *reversed(strides)]):
        array, row = _ragged(-(-rows // stride))
        row *= stride
        if above:
            between = row % above != 0
            array, row = array[between], row[between]
            following, origin = (row // above + 1) * above, offset[array]
            low, is_inside = begins[origin + row // above * above], following < rows[array]
            last = before.last[array]
            high = np.where(is_inside, begins[np.where(is_inside, origin + following, 0)], last)
        else:
            low, high = before.first[array], before.last[array]
        if not row.size:
            continue
        end = window.first[array] + row
        sizes = np.maximum(np.minimum(high, end - 1) - low, 0) + 1  # rounding may swap equal ones
        starts = np.cumsum(sizes) - sizes
        begin = np.arange(starts[-1] + sizes[-1]) + np.repeat(low - starts, sizes)
        explained = np.repeat(sums.weighted[end], sizes) - sums.weighted[begin]
        explained *= explained
        explained /= np.repeat(sums.counts[end], sizes) - sums.counts[begin]
        explained += best[begin + np.repeat(shift[array], sizes)]
        reached = np.maximum.reduceat(explained, starts)
        (equal,) = np.nonzero(explained == np.repeat(reached, sizes))
        place = offset[array] + row
        most[place] = reached
        begins[place] = begin[equal[np.searchsorted(equal, starts)]]
    return most, begins


def _ragged(sizes: _Places) -> tuple[_Places, _Places]:
    """Returns the number of the group, and the place in it, of each member of groups of several sizes."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    return group, np.arange(len(group)) - (np.cumsum(sizes) - sizes)[group]
