"""Repeating something and saying what the repetitions amount to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["MOST_WARMUPS", "Clock", "Samples", "Statistics", "describe", "median_interval", "sample"]

Clock = Callable[[], float]

_WARM_S = 0.3
_LEAST_WARMUPS = 2
#: How many warm-ups there are at most, where their number is left open.
MOST_WARMUPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
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
        count=len(values),
        min=float(values.min()),
        median=median,
        mean=float(values.mean()),
        p95=p95,
        p99=p99,
        max=float(values.max()),
        std=std,
    )


def median_interval(samples: Sequence[float], level: float) -> tuple[float, float] | None:
    """An interval that holds the median of what the samples are drawn from; no shape is assumed.

    Its ends are two of the samples (in between, interpolated), as far from the ends of the sorted row as the
    binomial distribution allows. That holds for independent samples. Those of a machine whose speed drifts
    resemble their neighbours, so they count as fewer: as n / (1 + 2 Σ ρ), where ρ are the autocorrelations
    of their ranks, up to the first that is not positive (Geyer's initial sequence, Practical Markov Chain
    Monte Carlo, 1992).

    Args:
        samples: In the order in which they were taken.
        level: How sure the interval is to hold the median: 0.975.

    Returns:
        The ends, or None where there are too few samples for one at this level.
    """
    count = int(_independent(samples))
    below, tail = -1, _binomial(count, 0)
    while 2 * tail <= 1 - level:
        below += 1
        tail += _binomial(count, below + 1)
    if below < 0:
        return None
    # The sample with `below` others in front of it, among as many samples as count.
    share = below / (count - 1)
    low, high = np.percentile(samples, (100 * share, 100 * (1 - share)))
    return float(low), float(high)


def _binomial(count: int, heads: int) -> float:
    """How probable so many heads are in so many tosses of a coin."""
    ways = math.lgamma(count + 1) - math.lgamma(heads + 1) - math.lgamma(count - heads + 1)
    return math.exp(ways - count * math.log(2))


def _independent(samples: Sequence[float]) -> float:
    """As how many independent samples these count."""
    values = np.asarray(samples, dtype=np.float64)
    # Equal samples share a rank, or the order in which they were taken would look like a drift.
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    ranks = ranks - ranks.mean()
    variance = float(ranks @ ranks)
    if not variance:
        return float(len(values))
    total = 0.0
    for lag in range(1, len(values) // 2 + 1):
        correlation = float(ranks[:-lag] @ ranks[lag:]) / variance
        if correlation <= 0:
            break
        total += correlation
    return len(values) / (1 + 2 * total)


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
