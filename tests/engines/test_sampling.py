"""Repeated timing and summary statistics."""

from __future__ import annotations

import numpy as np
import pytest

from coremlscope.engines.sampling import MOST_WARMUPS, Samples, Statistics, describe, median_interval, sample
from coremlscope.engines.scripted import ScriptedClock


def test_hand_computed_statistics() -> None:
    # Sorted: 1 2 3 10. Percentile p is at index p · 3: 2.85 and 2.97.
    found = describe([3.0, 1.0, 10.0, 2.0])
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
    assert describe([2.0]) == Statistics(
        count=1, min=2.0, median=2.0, mean=2.0, p95=2.0, p99=2.0, max=2.0, std=0.0
    )


def test_empty_samples_have_no_statistics() -> None:
    with pytest.raises(ValueError, match="no samples"):
        describe([])


def test_warmups_are_excluded_from_statistics() -> None:
    clock, durations = ScriptedClock(), iter([9.0, 8.0, 1.0, 2.0, 3.0])
    taken = sample(lambda: clock.advance(next(durations)), 3, 2, clock=clock)
    assert taken == Samples((1.0, 2.0, 3.0), (9.0, 8.0))
    assert taken.statistics.max == 3.0


@pytest.mark.parametrize(("duration", "expected"), [(10.0, 2), (0.1, 3), (0.001, MOST_WARMUPS)])
def test_automatic_warmups_take_a_third_of_a_second(duration: float, expected: int) -> None:
    clock = ScriptedClock()
    taken = sample(lambda: clock.advance(duration), 1, None, clock=clock)
    assert len(taken.warmups) in (expected, expected + 1)  # 0.1 + 0.1 + 0.1 is just above 0.3 in binary
    assert len(taken.seconds) == 1


def test_before_and_after_are_not_timed() -> None:
    clock, calls = ScriptedClock(), []

    def aside(name: str) -> None:
        calls.append(name)
        clock.advance(100.0)

    taken = sample(
        lambda: clock.advance(1.0),
        2,
        0,
        clock=clock,
        before=lambda: aside("before"),
        after=lambda: aside("after"),
    )
    assert taken.seconds == (1.0, 1.0)
    assert calls == ["before", "after"] * 2


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
