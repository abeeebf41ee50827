"""Repeated timing, and summary statistics of the samples."""

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
#: Maximum number of warm-up runs if the number is chosen automatically.
MOST_WARMUPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Summary statistics of samples, in the samples' unit.

    Attributes:
        count: Number of samples.
        median: The middle sample, or the mean of the middle two.
        p95: The 95th percentile, linearly interpolated between the two adjacent samples.
        p99: The 99th percentile, linearly interpolated.
        std: Sample standard deviation (divisor `count - 1`; 0 for a single sample).
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
        """The coefficient of variation: standard deviation over mean; 0 if the mean is 0."""
        return self.std / self.mean if self.mean else 0.0


@dataclass(frozen=True, slots=True)
class Samples:
    """Measured durations in seconds, in order of measurement."""

    seconds: tuple[float, ...]
    warmups: tuple[float, ...] = ()

    @property
    def statistics(self) -> Statistics:
        """Summary statistics, warm-up runs excluded."""
        return describe(self.seconds)


def describe(samples: Sequence[float]) -> Statistics:
    """Computes summary statistics.

    Raises:
        ValueError: `samples` is empty.
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
    """Computes a distribution-free confidence interval of the median.

    The bounds are order statistics of the samples (linearly interpolated), chosen by the binomial
    distribution, which is valid for independent samples. Samples of a machine whose speed drifts are
    autocorrelated, so the effective sample size n / (1 + 2 Σ ρ) is used, where ρ are the autocorrelations of
    the samples' ranks up to the first that is not positive (Geyer's initial sequence, Practical Markov Chain
    Monte Carlo, 1992).

    Args:
        samples: In order of measurement.
        level: The confidence level, such as 0.975.

    Returns:
        The bounds, or None if there are too few samples for this level.
    """
    count = int(_effective_sample_size(samples))
    below, tail = -1, _binomial(count, 0)
    while 2 * tail <= 1 - level:
        below += 1
        tail += _binomial(count, below + 1)
    if below < 0:
        return None
    # The rank of the order statistic with `below` smaller samples, relative to the effective sample size.
    share = below / (count - 1)
    low, high = np.percentile(samples, (100 * share, 100 * (1 - share)))
    return float(low), float(high)


def _binomial(count: int, heads: int) -> float:
    """Returns the probability of exactly `heads` heads in `count` tosses of a fair coin."""
    ways = math.lgamma(count + 1) - math.lgamma(heads + 1) - math.lgamma(count - heads + 1)
    return math.exp(ways - count * math.log(2))


def _effective_sample_size(samples: Sequence[float]) -> float:
    """Returns the number of independent samples with the same information."""
    values = np.asarray(samples, dtype=np.float64)
    # Equal samples share a rank; otherwise their order of measurement would look like drift.
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
    """Times repeated calls of `work`.

    Args:
        work: The function to time.
        iterations: Number of timed calls.
        warmups: Number of preceding warm-up calls, which are kept separately. None: until they have taken
            0.3 s in total, at least 2 and at most 20 calls, so that clock frequencies rise and caches fill.
        clock: A monotonic clock, in seconds.
        before: Called before each repetition, not timed.
        after: Called after each repetition, not timed.
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
