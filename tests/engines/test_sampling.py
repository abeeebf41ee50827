"""Repeated timing and summary statistics."""

from __future__ import annotations

import math

import pytest

from coremlscope.runtime.engines.sampling import MOST_WARMUPS, Samples, is_settled, sample, sample_within
from coremlscope.runtime.engines.scripted import ScriptedClock


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
        after=lambda seconds: aside(f"after {seconds:g} s"),
    )
    assert taken.seconds == (1.0, 1.0)
    assert calls == ["before", "after 1 s"] * 2


def taken_within(first: float, others: float, budget_s: float) -> tuple[int, int]:
    """How many samples and warm-ups there are of a piece of work that takes so long."""
    clock = ScriptedClock()
    durations = iter([first, *[others] * 10])
    samples = sample_within(lambda: clock.advance(next(durations)), 10, budget_s, clock=clock)
    return len(samples.seconds), len(samples.warmups)


def test_a_budget_bounds_repetitions() -> None:
    assert taken_within(1.0, 0.5, math.inf) == (10, 1)
    assert taken_within(1.0, 0.5, 10.0) == (10, 1)
    assert taken_within(3.0, 3.0, 10.0) == (2, 1)
    # Where a second one does not fit, the first one counts.
    assert taken_within(6.0, 6.0, 10.0) == (1, 0)
    # The first one contains what happens once: others are shorter.
    assert taken_within(4.0, 1.0, 10.0) == (6, 1)


def test_predictions_end_when_their_median_is_known() -> None:
    steady = [0.25 + 0.0005 * (number * 7 % 5) for number in range(50)]
    assert not is_settled(steady[:9])  # 2 s, but fewer than ten
    assert is_settled(steady[:10])
    assert not is_settled(steady[:11])  # looked at again after ten more
    assert is_settled(steady[:20])
    # A wide distribution is not known after twenty, and fast predictions are not looked at.
    noisy = [0.2 + 0.05 * (number * 7 % 11) for number in range(20)]
    assert not is_settled(noisy)
    assert not is_settled([seconds / 1000 for seconds in steady])
    # A long time ends them, but not before there is an interval.
    assert not is_settled([20.0] * 5)
    assert is_settled([20.0, 1.0] * 3)


def test_repetitions_end_when_enough() -> None:
    clock = ScriptedClock()
    taken = sample(lambda: clock.advance(1.0), 9, 0, clock=clock, enough=lambda seconds: len(seconds) == 4)
    assert taken.seconds == (1.0,) * 4
