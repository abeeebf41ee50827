"""Aligns the operations of two versions of a program."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from coremlscope.results.operations import OpTable

#: Scores for two operations to correspond: equal types, then equal types of results, then equal names.
_TYPE, _SHAPE, _NAME = 1, 3, 4
#: Only name and result types agree: the operation was replaced.
_REPLACED = 2
#: Largest score table, in cells. Larger problems are split in two first, so memory stays linear.
_WHOLE = 1 << 20

_Codes = npt.NDArray[np.int64]
_Pairs = list[tuple[int, int]]


def align(before: OpTable, after: OpTable) -> dict[int, int]:
    """Matches operations by name, type and the types of their results, in program order.

    Operations that are equal in all of these and occur once on either side are matched first. Between them,
    the common subsequence with the highest score is matched, so that an
    operation that was inserted, removed or renamed does not affect others. Equal operations that were moved
    are matched last.

    Args:
        before: The operations of one version, in program order.
        after: The operations of the other version.

    Returns:
        Indices into `after` by indices into `before`; operations without a counterpart are absent.
    """
    sides = _Keys(before, after)
    pairs: _Pairs = []
    for left, right in _gaps(_anchors(sides.whole(0), sides.whole(1)), len(before), len(after), pairs):
        pairs += _best(sides, left, right)
    found = dict(pairs)
    found.update(_moved(sides, found))
    return found


class _Keys:
    """Each operation as numbers that are equal where types, shapes and names are equal."""

    def __init__(self, *tables: OpTable) -> None:
        known: dict[Hashable, int] = {}
        self.columns = [
            {
                # Operations within a loop never match those outside.
                "type": _codes(zip(t.type, map(_depth, t.id), strict=True), known),
                "shape": _codes(t.outputs, known),
                "name": _codes(t.name, known),
            }
            for t in tables
        ]

    def whole(self, side: int) -> list[Hashable]:
        """Returns all keys of each operation of one side."""
        return list(zip(*(column.tolist() for column in self.columns[side].values()), strict=True))

    def scores(self, row: int, right: slice) -> _Codes:
        """Scores an operation against operations of the other side; 0 for no match."""
        type_, shape, name = (
            self.columns[1][key][right] == self.columns[0][key][row] for key in ("type", "shape", "name")
        )
        return np.where(type_, _TYPE + _SHAPE * shape + _NAME * name, _REPLACED * (shape & name))


def _codes(values: Sequence[Hashable] | Iterator[Hashable], known: dict[Hashable, int]) -> _Codes:
    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)


def _depth(op_id: str) -> int:
    return op_id.count("/")


def _anchors(before: Sequence[Hashable], after: Sequence[Hashable]) -> _Pairs:
    """Returns the longest ordered sequence of operations that occur once on either side."""
    counts, others = Counter(before), Counter(after)
    place = {key: index for index, key in enumerate(after)}
    pairs = [(i, place[key]) for i, key in enumerate(before) if counts[key] == others.get(key, 0) == 1]
    return _longest_increasing(pairs)


def _longest_increasing(pairs: _Pairs) -> _Pairs:
    """Returns the longest increasing subsequence by the right index of pairs sorted by the left one."""
    ends: list[int] = []
    last: list[int] = []
    previous: list[int] = []
    for index, (_, right) in enumerate(pairs):
        length = bisect_left(ends, right)
        if length == len(ends):
            ends.append(right)
            last.append(index)
        else:
            ends[length], last[length] = right, index
        previous.append(last[length - 1] if length else -1)
    chain: _Pairs = []
    index = last[-1] if last else -1
    while index >= 0:
        chain.append(pairs[index])
        index = previous[index]
    return chain[::-1]


def _gaps(anchors: _Pairs, rows: int, columns: int, pairs: _Pairs) -> Iterator[tuple[slice, slice]]:
    """Yields the gaps between anchors on both sides; the anchors themselves go to `pairs`."""
    row = column = 0
    for left, right in [*anchors, (rows, columns)]:
        if row < left and column < right:
            yield slice(row, left), slice(column, right)
        if left < rows:
            pairs.append((left, right))
        row, column = left + 1, right + 1


def _best(sides: _Keys, left: slice, right: slice) -> _Pairs:
    """Finds the common subsequence with the highest score.

    A gap costs nothing, so each row of the table is a running maximum. Large tables are cut in two where the
    scores of both halves add up to the most (Hirschberg, A linear space algorithm for computing maximal
    common subsequences, 1975).
    """
    rows, columns = left.stop - left.start, right.stop - right.start
    if not rows or not columns:
        return []
    if rows == 1 or rows * columns <= _WHOLE:
        return _trace(sides, left, right)
    middle = (left.start + left.stop) // 2
    forth = _last_row(sides, range(left.start, middle), right, 1)
    back = _last_row(sides, range(left.stop - 1, middle - 1, -1), right, -1)
    cut = right.start + int(np.argmax(forth + back[::-1]))
    head = _best(sides, slice(left.start, middle), slice(right.start, cut))
    return head + _best(sides, slice(middle, left.stop), slice(cut, right.stop))


def _step(above: _Codes, scores: _Codes) -> _Codes:
    best = above.copy()
    best[1:] = np.maximum(best[1:], above[:-1] + scores)
    return np.asarray(np.maximum.accumulate(best))


def _last_row(sides: _Keys, rows: range, right: slice, direction: int) -> _Codes:
    best = np.zeros(right.stop - right.start + 1, np.int64)
    for row in rows:
        best = _step(best, _matching(sides.scores(row, right))[::direction])
    return best


def _matching(scores: _Codes) -> _Codes:
    """Returns scores in which non-matches are too low to be chosen."""
    return np.where(scores > 0, scores, -1)


def _trace(sides: _Keys, left: slice, right: slice) -> _Pairs:
    table = [np.zeros(right.stop - right.start + 1, np.int64)]
    scores = []
    for row in range(left.start, left.stop):
        scores.append(_matching(sides.scores(row, right)))
        table.append(_step(table[-1], scores[-1]))
    pairs: _Pairs = []
    row, column = len(scores), right.stop - right.start
    while row and column:
        here = table[row][column]
        if here == table[row - 1][column]:
            row -= 1
        elif here == table[row][column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((left.start + row, right.start + column))
    return pairs[::-1]


def _moved(sides: _Keys, found: Mapping[int, int]) -> _Pairs:
    """Pairs unmatched operations with equal keys, in order."""
    taken = set(found.values())
    free: dict[Hashable, list[int]] = {}
    for index, key in enumerate(sides.whole(1)):
        if index not in taken:
            free.setdefault(key, []).append(index)
    pairs: _Pairs = []
    for index, key in enumerate(sides.whole(0)):
        if index not in found and free.get(key):
            pairs.append((index, free[key].pop(0)))
    return pairs
