"""Summary statistics of repeated measurements, and a distribution-free interval of their median."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Summary statistics of samples, in the samples' unit.

    Attributes:
        count: Number of samples.
        median: The middle sample, or the mean of the middle two.
        p95: The 95th percentile, interpolated linearly between the two neighbouring samples.
        p99: The 99th percentile, interpolated in the same way.
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
        """The coefficient of variation: standard deviation divided by mean; 0 if the mean is 0."""
        return self.std / self.mean if self.mean else 0.0


def summarize(samples: Sequence[float]) -> Statistics:
    """Computes summary statistics of samples.

    Raises:
        ValueError: There are no samples.
    """
    if not samples:
        raise ValueError("no samples to summarize")
    import numpy as np  # takes a third of the start of verbs that summarize nothing

    values = np.asarray(samples, dtype=np.float64)
    median, p95, p99 = (_quantile(sorted(samples), share) for share in (0.5, 0.95, 0.99))
    return Statistics(
        count=len(values),
        min=float(values.min()),
        median=median,
        mean=float(values.mean()),
        p95=p95,
        p99=p99,
        max=float(values.max()),
        std=float(values.std(ddof=1)) if len(values) > 1 else 0.0,
    )


def median_interval(samples: Sequence[float], level: float) -> tuple[float, float] | None:
    """Computes a distribution-free confidence interval of the median.

    The ends are order statistics (interpolated), chosen by the binomial distribution. That assumes
    independent samples. If the speed of the machine drifts, samples are autocorrelated, so the effective
    sample size n / (1 + 2 Σ ρ) replaces n, where ρ are the autocorrelations of the ranks up to the first that
    is not positive (Geyer's initial sequence, Practical Markov Chain Monte Carlo, 1992).

    Args:
        samples: In the order in which they were taken.
        level: The confidence level: 0.975.

    Returns:
        The ends, or None if there are too few samples for this level.
    """
    count = int(_effective_sample_size(samples))
    below, tail = -1, _binomial(count, 0)
    while 2 * tail <= 1 - level:
        below += 1
        tail += _binomial(count, below + 1)
    if below < 0:
        return None
    # The order statistic with `below` smaller samples, scaled to the effective sample size.
    share = below / (count - 1)
    ordered = sorted(samples)
    return _quantile(ordered, share), _quantile(ordered, 1 - share)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolates linearly between two samples, as `numpy.quantile` does, which imports more of NumPy."""
    place = (len(ordered) - 1) * share
    below = math.floor(place)
    low, high = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
    part, step = place - below, high - low
    return low + step * part if part < 0.5 else high - step * (1 - part)  # exact at both ends


def _binomial(count: int, heads: int) -> float:
    """Returns the probability of `heads` heads in `count` tosses of a fair coin."""
    ways = math.lgamma(count + 1) - math.lgamma(heads + 1) - math.lgamma(count - heads + 1)
    return math.exp(ways - count * math.log(2))


def _effective_sample_size(samples: Sequence[float]) -> float:
    import numpy as np

    values = np.asarray(samples, dtype=np.float64)
    # Equal samples have equal ranks; otherwise their order would look like a drift.
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
