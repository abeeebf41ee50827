"""Repeating something and saying what the repetitions amount to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["MOST_WARMUPS", "Clock", "Samples", "Statistics", "describe", "sample"]

Clock = Callable[[], float]

_WARM_S = 0.3
_LEAST_WARMUPS = 2
#: How many warm-ups there are at most, where their number is left open.
MOST_WARMUPS = 20


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a row of samples amounts to, in the samples' unit.

    Attributes:
        count: How many samples there are.
        median: The middle one, or the mean of the middle two.
        p95: The 95th percentile, interpolated linearly between the two samples beside it.
        p99: The 99th percentile, likewise.
        std: The samples' standard deviation (divisor `count - 1`; 0 for a single sample).
    """

    count: int
    min: float
    median: float
    mean: float
    p95: float
    p99: float
    max: float
    std: float

    @property
    def variation(self) -> float:
        """The coefficient of variation: standard deviation over mean; 0 where the mean is 0."""
        return self.std / self.mean if self.mean else 0.0


@dataclass(frozen=True, slots=True)
class Samples:
    """Measured durations in seconds, in the order in which they were taken."""

    seconds: tuple[float, ...]
    warmups: tuple[float, ...] = ()

    @property
    def statistics(self) -> Statistics:
        """What they amount to, warm-ups left out."""
        return describe(self.seconds)


def describe(samples: Sequence[float]) -> Statistics:
    """What a row of samples amounts to.

    Raises:
        ValueError: There is no sample.
    """
    if not samples:
        raise ValueError("no samples to describe")
    values = np.asarray(samples, dtype=np.float64)
    median, p95, p99 = (float(v) for v in np.percentile(values, (50, 95, 99)))
    std = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Statistics(
        len(values), float(values.min()), median, float(values.mean()), p95, p99, float(values.max()), std
    )


def sample(
    work: Callable[[], object],
    iterations: int,
    warmups: int | None,
    *,
    clock: Clock = time.perf_counter,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
) -> Samples:
    """Times `work`, called again and again.

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
