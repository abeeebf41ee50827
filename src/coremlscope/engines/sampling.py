"""Repeating something and saying what the repetitions amount to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Samples", "Statistics", "describe", "sample"]

Clock = Callable[[], float]


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
    warmups: int,
    *,
    clock: Clock = time.perf_counter,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
) -> Samples:
    """Times `work`, called again and again.

    Args:
        work: What is timed.
        iterations: How often it is timed and kept.
        warmups: How often it is timed before that and kept apart.
        clock: Seconds since some moment; never goes back.
        before: Called ahead of each repetition, outside the timing.
        after: Called behind each repetition, outside the timing.
    """
    taken = []
    for _ in range(warmups + iterations):
        if before is not None:
            before()
        start = clock()
        work()
        taken.append(clock() - start)
        if after is not None:
            after()
    return Samples(tuple(taken[warmups:]), tuple(taken[:warmups]))
