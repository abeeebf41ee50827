"""Repeated timing and summary statistics."""

from __future__ import annotations

import pytest

from coremlscope.engines.sampling import MOST_WARMUPS, Samples, sample
from coremlscope.engines.scripted import ScriptedClock


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
