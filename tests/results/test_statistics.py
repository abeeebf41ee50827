from __future__ import annotations

import numpy as np
import pytest

from coremlscope.results.statistics import Statistics, median_interval, summarize


def test_hand_computed_statistics() -> None:
    # Sorted: 1 2 3 10. Percentile p is at index p · 3: 2.85 and 2.97.
    found = summarize([3.0, 1.0, 10.0, 2.0])
    deviations = (4 - 3) ** 2 + (4 - 1) ** 2 + (4 - 10) ** 2 + (4 - 2) ** 2
    assert found == Statistics(
        count=4,
        min=1.0,
        median=2.5,
        mean=4.0,
        p95=pytest.approx(3 + 0.85 * 7),
        p99=pytest.approx(3 + 0.97 * 7),
        max=10.0,
        std=pytest.approx((deviations / 3) ** 0.5),
    )
    assert found.variation == pytest.approx((50 / 3) ** 0.5 / 4)


def test_single_sample_has_zero_deviation() -> None:
    assert summarize([2.0]) == Statistics(
        count=1, min=2.0, median=2.0, mean=2.0, p95=2.0, p99=2.0, max=2.0, std=0.0
    )


def test_empty_samples_have_no_statistics() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


def test_hand_computed_median_interval() -> None:
    # In ten tosses of a coin, at most one head has probability 11 / 1024; twice that is below 2.5 %.
    assert median_interval([7.0, 3, 9, 1, 10, 5, 2, 8, 4, 6], 0.975) == (2, 9)
    assert median_interval([3.0, 1, 5, 2, 4], 0.975) is None
    assert median_interval([1.0], 0.5) is None
    assert median_interval([2.0] * 20, 0.975) == (2, 2)


def test_median_interval_has_the_stated_coverage() -> None:
    rng = np.random.default_rng(0)
    rows = rng.lognormal(size=(2000, 40))
    intervals = [median_interval(row.tolist(), 0.9) for row in rows]
    assert np.mean([low <= 1 <= high for low, high in intervals if low]) == pytest.approx(0.91, abs=0.03)


def test_drift_widens_the_median_interval() -> None:
    rng = np.random.default_rng(0)
    steady = rng.normal(10, 1, 200)
    drifting = steady + np.repeat(rng.normal(0, 3, 10), 20)
    narrow, wide = (median_interval(row.tolist(), 0.95) for row in (steady, drifting))
    assert narrow is not None
    assert wide is not None
    assert wide[1] - wide[0] > 5 * (narrow[1] - narrow[0])
