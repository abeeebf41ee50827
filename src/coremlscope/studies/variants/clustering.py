"""Clusters numbers exactly: the same sums of squares as coremltools' clustering, in less time.

Clusters of sorted numbers are intervals. Moving one boundary at a time finds intervals whose sum cannot be
reduced so; then all boundaries are placed again at once, each between its two neighbours, by dynamic
programming. Intervals that this does not change are the best of all. Proof: costs of intervals have the
inequality of Monge. Let Q be better than P, and ahead of it by two boundaries or more somewhere. There, its
boundaries and those of P, numbered one higher, can be exchanged: the minima of both, and the maxima, are
divisions whose costs are not larger in sum, and neither is as far ahead of P as Q was. By induction one that
lies between the neighbours of P would be better than P.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from coremlscope.model.ir import Array

#: Coarse groups of values for each cluster, and how many rows are between those that are computed first.
_GROUPS, _STRIDE = 4, 4
#: Moves of single boundaries; what they leave is found by dynamic programming.
_MOST_MOVES = 300
#: The share of all squares that clusters leave, at least, where rounding in float64 cannot matter.
_LEAST = 1e-8


class _Sums(msgspec.Struct, frozen=True, eq=False):
    """Values, and sums over those before each of them: of their counts, and of values times counts."""

    values: Array
    counts: Array
    weighted: Array


def divide(values: Array, counts: Array, clusters: int, cluster: Callable[..., Any]) -> Array | None:
    """Returns where clusters of sorted numbers begin and end, with the least sum of squared differences.

    Args:
        values: Different numbers, ascending: float[n].
        counts: How often each occurs: int[n].
        clusters: How many clusters, fewer than numbers.
        cluster: coremltools' exact clustering, for a first division.

    Returns:
        int[clusters + 1], from 0 to n; None where rounding decides, since values are of very different sizes.
    """
    numbers, weights = values.astype(np.float64), counts.astype(np.float64)
    numbers -= np.dot(numbers, weights) / weights.sum()
    sums = _Sums(numbers, np.append(0.0, np.cumsum(weights)), np.append(0.0, np.cumsum(numbers * weights)))
    edges = _divide_coarsely(numbers, weights, clusters, cluster)
    edges = _move(edges, sums)
    total = np.dot(numbers * numbers, weights)
    explained = (np.square(np.diff(sums.weighted[edges])) / np.diff(sums.counts[edges])).sum()
    if total - explained < _LEAST * total:
        return None
    known = -np.inf
    while True:
        better, reached = _place_again(edges, sums)
        if reached <= known or np.array_equal(better, edges):
            return edges
        edges, known = better, reached


def _divide_coarsely(numbers: Array, weights: Array, clusters: int, cluster: Callable[..., Any]) -> Array:
    """Divides groups of values, which are as dense as the best clusters of many are."""
    shares: Array = np.multiply(weights, np.square(np.gradient(numbers)))
    density = np.cumsum(np.cbrt(shares))
    cuts = np.searchsorted(density, np.linspace(0, density[-1], _GROUPS * clusters + 1)[1:-1])
    starts = np.unique(np.append(0, cuts))
    if len(starts) < 2 * clusters:
        starts = np.arange(len(numbers))
    size = np.add.reduceat(weights, starts)
    means = np.add.reduceat(np.multiply(numbers, weights), starts) / size
    places = np.array(cluster(means, clusters, weights=size).clusters)
    return np.append(starts, len(numbers))[np.searchsorted(places, np.arange(clusters + 1))]


def _move(edges: Array, sums: _Sums) -> Array:
    """Puts each boundary in the middle between the means on both sides, until none moves."""
    for _ in range(_MOST_MOVES):
        means = np.diff(sums.weighted[edges]) / np.diff(sums.counts[edges])
        moved = np.concatenate(
            [edges[:1], np.searchsorted(sums.values, (means[1:] + means[:-1]) / 2), edges[-1:]]
        )
        if (np.diff(moved) <= 0).any() or np.array_equal(moved, edges):
            break
        edges = moved
    return edges


def _place_again(edges: Array, sums: _Sums) -> tuple[Array, float]:
    """Returns the best boundaries that lie each between its neighbours, and how much they explain."""
    count, end = len(edges) - 1, int(edges[-1])
    best: Array = np.zeros(1)
    before = 0, 0
    choices = []
    for place in range(1, count + 1):
        last = end if place == count else min(int(edges[place + 1]), end - (count - place))
        window = (end if place == count else max(int(edges[place - 1]), place), last)
        best, choice = _extend(best, before, window, sums)
        choices.append((window[0], choice))
        before = window
    better = [end]
    for first, choice in reversed(choices):
        better.append(int(choice[better[-1] - first]))
    return np.array(better[::-1]), float(best[0])


def _extend(
    best: Array, before: tuple[int, int], window: tuple[int, int], sums: _Sums
) -> tuple[Array, Array]:
    """Adds an interval that ends at each place of a window.

    The best begin of an interval never falls while its end rises. So every few ends are computed first, and
    bound those between.

    Args:
        best: What the intervals before explain at most, by where they end.
        before: The first and the last place where they may end.
        window: The first and the last place where the new one may end.
        sums: The values.

    Returns:
        What all explain at most, and where the last one begins, for each place of the window.
    """
    first, rows = window[0], window[1] - window[0] + 1
    begins, most = np.empty(rows, np.intp), np.empty(rows)
    strides = [1]
    while strides[-1] * _STRIDE < rows:
        strides.append(strides[-1] * _STRIDE)
    for above, stride in pairwise([0, *reversed(strides)]):
        row = np.arange(0, rows, stride)
        low, high = np.full(row.size, before[0]), np.full(row.size, before[1])
        if above:
            row = row[row % above != 0]
            low, following = begins[row // above * above], (row // above + 1) * above
            high = np.where(following < rows, begins[np.minimum(following, rows - 1)], before[1])
        if not row.size:
            continue
        end = first + row
        sizes = np.maximum(np.minimum(high, end - 1) - low, 0) + 1  # rounding may swap equal ones
        starts = np.cumsum(sizes) - sizes
        begin = np.arange(sizes.sum()) + np.repeat(low - starts, sizes)
        ends = np.repeat(end, sizes)
        weighted = sums.weighted[ends] - sums.weighted[begin]
        explained = weighted * weighted / (sums.counts[ends] - sums.counts[begin]) + best[begin - before[0]]
        most[row] = np.maximum.reduceat(explained, starts)
        (reached,) = np.nonzero(explained == np.repeat(most[row], sizes))
        begins[row] = begin[reached[np.searchsorted(reached, starts)]]
    return most, begins
