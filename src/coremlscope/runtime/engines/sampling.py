"""Repeated timing of one piece of work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from coremlscope.results.statistics import Statistics, median_interval, summarize

Clock = Callable[[], float]

_WARM_S = 0.3
_LEAST_WARMUPS = 2
#: How many warm-ups there are at most, where their number is left open.
MOST_WARMUPS = 20

#: Seconds that compilations, and then loads, may take where their number is left open.
PHASE_BUDGET_S = 2.0
#: When predictions may end early: they are at least so many, take at least so long, and the interval of their
#: median at this level ends within this share of the median on either side; or they take the longest time.
#: Fewer than six samples have no interval at any useful level.
_LEAST_SAMPLES, _FEWEST_SAMPLES = 10, 6
_LEAST_S, LONGEST_S = 2.0, 30.0
_LEVEL, _NARROW = 0.99, 0.01


class Samples(msgspec.Struct, frozen=True):
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
    after: Callable[[float], object] | None = None,
    enough: Callable[[Sequence[float]], bool] = lambda _: False,
) -> Samples:
    """Times repeated calls of `work`.

    Args:
        work: What is timed.
        iterations: How often it is timed and kept.
        warmups: How often it is timed before that and kept apart. None: until it has taken 0.3 s, at least
            twice and at most 20 times; processors reach their speed and caches fill in that time.
        clock: Seconds since some moment; never goes back.
        before: Called ahead of each repetition, outside the timing.
        after: Called behind each repetition with its seconds, outside the timing.
        enough: Called with the samples that are kept, after each of them; True ends the repetitions.
    """

    def once() -> float:
        if before is not None:
            before()
        start = clock()
        work()
        seconds = clock() - start
        if after is not None:
            after(seconds)
        return seconds

    warm: list[float] = []
    least, most = (_LEAST_WARMUPS, MOST_WARMUPS) if warmups is None else (warmups, warmups)
    while len(warm) < least or (len(warm) < most and sum(warm) < _WARM_S):
        warm.append(once())
    taken: list[float] = []
    while len(taken) < iterations and not (taken and enough(taken)):
        taken.append(once())
    return Samples(tuple(taken), tuple(warm))


def sample_within(
    work: Callable[[], object],
    iterations: int,
    budget_s: float,
    *,
    clock: Clock = time.perf_counter,
    before: Callable[[], object] | None = None,
    after: Callable[[float], object] | None = None,
) -> Samples:
    """Times a first call of `work`, which is kept apart, and as many others as fit into a budget.

    A call is begun if one that takes as long as the call before it ends within the budget. Where there is no
    time for a second one, the first one is kept.

    Args:
        work: What is timed.
        iterations: How often it is timed at most, besides the first time.
        budget_s: Seconds that all calls may take.
        clock: Seconds since some moment; never goes back.
        before: Called ahead of each repetition, outside the timing.
        after: Called behind each repetition with its seconds, outside the timing.
    """
    (first,) = sample(work, 1, 0, clock=clock, before=before, after=after).seconds
    if 2 * first > budget_s:
        return Samples((first,))
    spent = spends(budget_s - first)
    rest = sample(work, iterations, 0, clock=clock, before=before, after=after, enough=spent)
    return Samples(rest.seconds, (first,))


def spends(budget_s: float) -> Callable[[Sequence[float]], bool]:
    """Returns what ends repetitions if one more that takes as long as the last one would exceed a budget."""
    return lambda taken: sum(taken) + taken[-1] > budget_s


def is_settled(taken: Sequence[float]) -> bool:
    """Returns whether predictions may end: their median is known well enough, or they took very long.

    Predictions of fast models never end early, and pay for no check: it begins after 2 s.
    """
    spent = sum(taken)
    if spent < _LEAST_S or len(taken) < _FEWEST_SAMPLES:
        return False
    if spent >= LONGEST_S:
        return True
    # An interval that is looked at often is narrow by chance sooner or later.
    if len(taken) < _LEAST_SAMPLES or len(taken) % _LEAST_SAMPLES:
        return False
    interval = median_interval(taken, _LEVEL)
    if interval is None:
        return False
    middle = summarize(taken).median
    return max(middle - interval[0], interval[1] - middle) <= _NARROW * middle
