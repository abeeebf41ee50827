"""Finds the smallest range of operations with a property, in few tests.

The property is taken to hold for every range that contains one for which it holds. Then each test of a
range halves what is possible: after "yes" the smallest range lies inside, after "no" it does not. There are
n(n+1)/2 ranges of n operations, so 2·log2(n) - 1 tests are needed at least. Tests that find single operations
early are preferred, because most causes are single operations, as long as the limit can still be met.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]
#: First and last operations of tests that are considered; among more, evenly spaced ones are.
_MOST_ENDS = 1200
#: Candidates that a test may leave, as shares of those that the tests after it can tell apart; the first
#: share that can be kept. Less than all, because ranges cannot always be divided into halves.
_SHARES = (0.75, 0.9, 1.0)


def limit_of(count: int) -> int:
    """Returns the largest number of tests for a number of operations: 2·log2, at least one."""
    return max(1, math.floor(2 * math.log2(count) + 1e-9))


@dataclass(slots=True, kw_only=True)
class RangeSearch:
    """A search among the ranges of some operations.

    Attributes:
        count: The number of operations.
        limit: The largest number of tests.
        first: The first operation of the smallest range that is known to have the property, or that may.
        last: The last operation of that range.
        tests: The number of tests so far.
        has_yes: True if some range has the property.
        has_no: True if some range does not have it.
    """

    count: int
    limit: int
    first: int = 0
    last: int = 0
    tests: int = 0
    has_yes: bool = False
    has_no: bool = False
    #: For each last operation, the end (exclusive) of the possible first operations.
    _ends: _Integers = field(init=False, repr=False)
    _untestable: set[tuple[int, int]] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        self.last = self.count - 1
        self._ends = np.arange(1, self.count + 1)

    @property
    def found(self) -> tuple[int, int] | None:
        """The smallest range with the property, if it is known."""
        alive = self._alive()
        if not self.has_yes or alive.sum() != 1:
            return None
        return self.first, self.first + int(np.argmax(alive))

    @property
    def is_impossible(self) -> bool:
        """True if no range has the property."""
        return not self._alive().any()

    def next_range(self) -> tuple[int, int] | None:
        """Returns the first and the last operation of the range to test next.

        None if the smallest range is found, if no range has the property, if the limit is reached, or if what
        remains cannot be tested.
        """
        if self.tests >= self.limit or self.is_impossible or self.found is not None:
            return None
        return self._best()

    def record(self, first: int, last: int, answer: bool | None) -> None:
        """Takes the answer of a test: whether a range has the property; None if it cannot be tested."""
        self.tests += 1
        if answer is None:
            self._untestable.add((first, last))
        elif answer:
            self.has_yes = True
            self.first, self.last = max(self.first, first), min(self.last, last)
        else:
            self.has_no = True
            self._ends[: last + 1] = np.minimum(self._ends[: last + 1], first)

    def _alive(self) -> _Integers:
        """Returns the number of possible first operations, for each possible last one."""
        return np.maximum(self._ends[self.first : self.last + 1] - self.first, 0)

    def _best(self) -> tuple[int, int] | None:
        """Returns the test that tells most within the limit; None if none tells anything."""
        ends = self._ends[self.first : self.last + 1]
        firsts = _spaced(self.first, self.last)
        lasts = _spaced(self.first, self.last)
        inside = np.cumsum(np.maximum(ends[None, :] - firsts[:, None], 0), axis=1)[:, lasts - self.first]
        total = self._alive().sum()
        yes = (inside + (not self.has_no)).astype(np.float64)
        no = (total - inside + (not self.has_yes)).astype(np.float64)
        useful = self._useful(firsts, lasts, inside, int(total))
        if not useful.any():
            return None
        room = 2.0 ** (self.limit - self.tests - 1)
        most = np.maximum(yes, no)
        fitting = (useful & (most <= share * room) for share in _SHARES)
        fits = next((one for one in fitting if one.any()), None)
        score = most if fits is None else np.abs(2 * self._weigh(firsts, lasts, inside) - 1)
        score = np.where(useful if fits is None else fits, score, np.inf)
        row, column = np.unravel_index(int(np.argmin(score)), score.shape)
        return int(firsts[row]), int(lasts[column])

    def _useful(
        self,
        firsts: _Integers,
        lasts: _Integers,
        inside: _Integers,
        total: int,
    ) -> npt.NDArray[np.bool_]:
        """Returns which tests can be made and exclude something, whatever their answer."""
        useful = (inside > 0) & ((inside < total) | (not self.has_yes))
        for first, last in self._untestable:
            useful &= (firsts != first)[:, None] | (lasts != last)[None, :]
        return useful

    def _weigh(self, firsts: _Integers, lasts: _Integers, inside: _Integers) -> npt.NDArray[np.float64]:
        """Returns how likely each test is to be answered by yes.

        One half is given to single operations, the other to all ranges.
        """
        ends = self._ends[self.first : self.last + 1]
        single = np.cumsum(ends == np.arange(self.first, self.last + 1) + 1)
        before = np.where(firsts > self.first, single[np.maximum(firsts - self.first - 1, 0)], 0)
        singles = np.maximum(single[lasts - self.first][None, :] - before[:, None], 0)
        shares: npt.NDArray[np.float64] = inside / self._alive().sum()
        return (shares + singles / single[-1]) / 2 if single[-1] else shares


def _spaced(first: int, last: int) -> _Integers:
    number = min(last - first + 1, _MOST_ENDS)
    return np.unique(np.linspace(first, last, number).round().astype(np.int64))
