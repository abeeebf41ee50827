"""Equal blocks of a model: a sequence of kernels that comes several times in a row, as layers do."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from coremlscope.results.estimate import Estimate, Kernel

#: The fewest blocks in a row, kernels of a block, and share of the time that are worth a line.
_LEAST_TIMES, _LEAST_KERNELS, _LEAST_SHARE = 3, 2, 0.25
#: Kernels of the longest block that is looked for.
_MOST_KERNELS = 200
#: Equal work takes equal times but for rounding.
_DIGITS = 3


def find_equal_blocks(kernels: Sequence[Kernel], estimate: Estimate) -> tuple[range, int]:
    """Returns the kernels of the equal blocks in which much of the time is spent, and the number of blocks.

    Args:
        kernels: The kernels in order of execution.
        estimate: Their times.
    """
    times = estimate.kernel_s
    keys = [(one.kind, f"{s:.{_DIGITS}g}") for one, s in zip(kernels, times, strict=False)]
    start, length, count = find_repeat(keys)
    blocks = range(start, start + length * count)
    seconds = sum(times[start : start + length * count])
    if count < _LEAST_TIMES or seconds < _LEAST_SHARE * estimate.latency.value:
        return range(0), 0
    return blocks, count


def find_repeat(keys: Sequence[Hashable]) -> tuple[int, int, int]:
    """Returns the start, the length and the number of the equal parts in a row that cover most of a sequence.

    Of several, the shortest parts are returned; a number of 0 where nothing is repeated.
    """
    known: dict[Hashable, int] = {}
    row = np.array([known.setdefault(key, len(known)) for key in keys])
    best = (0, 0, 0)
    for length in range(_LEAST_KERNELS, min(_MOST_KERNELS, len(row) // _LEAST_TIMES) + 1):
        # Where runs of equal neighbours at this distance begin and end.
        same = np.concatenate(([False], row[length:] == row[:-length], [False]))
        starts, ends = np.flatnonzero(same[1:] & ~same[:-1]), np.flatnonzero(~same[1:] & same[:-1])
        if len(starts) == 0:
            continue
        longest = int(np.argmax(ends - starts))
        count = int(ends[longest] - starts[longest]) // length + 1
        if count >= _LEAST_TIMES and count * length > best[1] * best[2]:
            best = (int(starts[longest]), length, count)
    return best
