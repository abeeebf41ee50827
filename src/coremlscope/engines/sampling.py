"""Repeated timing of one piece of work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from coremlscope.results.statistics import Statistics, summarize

__all__ = ["MOST_WARMUPS", "Clock", "Samples", "sample"]

Clock = Callable[[], float]

_WARM_S = 0.3
_LEAST_WARMUPS = 2
#: How many warm-ups there are at most, where their number is left open.
MOST_WARMUPS = 20


@dataclass(frozen=True, slots=True)
class Samples:
    """Measured durations in seconds, in the order in which they were taken."""

    seconds: tuple[float, ...]
    warmups: tuple[float, ...] = ()

    @property
    def statistics(self) -> Statistics:
        """Summary statistics of the samples, without warm-ups."""
        return summarize(self.seconds)


def sample(
    work: Callable[[], object],
    iterations: int,
    warmups: int | None,
    *,
    clock: Clock = time.perf_counter,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
) -> Samples:
    """Times repeated calls of `work`.

    Args:
        work: What is timed.
        iterations: How often it is timed and kept.
        warmups: How often it is timed before that and kept apart. None: until it has taken 0.3 s, at least
            twice and at most 20 times; processors reach their speed and caches fill in that time.
        clock: Seconds since some moment; never goes back.
        before: Called ahead of each repetition, outside the timing.
        after: Called behind each repetition, outside the timing.
    """

    def once() -> float:
        if before is not None:
            before()
        start = clock()
        work()
        seconds = clock() - start
        if after is not None:
            after()
        return seconds

    warm: list[float] = []
    least, most = (_LEAST_WARMUPS, MOST_WARMUPS) if warmups is None else (warmups, warmups)
    while len(warm) < least or (len(warm) < most and sum(warm) < _WARM_S):
        warm.append(once())
    return Samples(tuple(once() for _ in range(iterations)), tuple(warm))
