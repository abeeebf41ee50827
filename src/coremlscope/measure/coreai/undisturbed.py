"""The times of operations without the profiler, which makes short ones many times as long.

Core AI's profiler takes 15 µs within each operation and as much between them, where small operations take
1 µs. Its part is taken off each event. Where it still makes calls much longer, times are composed: a call in
which a single operation is watched is hardly longer than one without, so it tells when that operation begins.
The time between such begins is divided by the profiler's times.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.measure.coreai.operations import Event

#: Events from which one is taken to have done next to nothing, so that its time is the profiler's.
_LEAST_EVENTS = 32
#: Rounds and watched operations from which their medians are used.
_LEAST_ROUNDS, _LEAST_WATCHED = 3, 2


class ProfilerCost(msgspec.Struct, frozen=True, kw_only=True):
    """The time that the profiler takes within each event.

    Attributes:
        seconds: The shortest event of all runs, but no more than each event slows the call.
        usual_s: The median over runs of the shortest event of each; it is longer where something interrupts.
        events: The number of events of a run.
    """

    seconds: float = 0.0
    usual_s: float = 0.0
    events: int = 0


def profiler_cost(runs: Sequence[Sequence[Event]], slowed_s: float) -> ProfilerCost:
    """Returns the time that the profiler takes within each event.

    Every event holds the same time of the profiler, and among many operations some do next to nothing. With
    coreai-core 1.0.0b3, 697 events of an LSTM took 13.4 to 15.7 µs each, 95 % of them, while the whole call
    without a profiler took 2.3 ms.

    Args:
        runs: The events of each profiled run.
        slowed_s: Seconds by which the profiler makes a call longer.
    """
    if not runs or min(map(len, runs)) < _LEAST_EVENTS:
        return ProfilerCost()
    shortest = [min(event.seconds for event in events) for events in runs]
    events = min(map(len, runs))
    seconds = min(*shortest, max(slowed_s, 0.0) / events)
    return ProfilerCost(seconds=seconds, usual_s=max(statistics.median(shortest), seconds), events=events)


class Watch(msgspec.Struct, frozen=True):
    """A call in which a single operation was watched.

    Attributes:
        number: The number of the operation in the interpreter.
        begin_s: Seconds from the begin of the call to the callback before the operation.
        took_s: Seconds from there to the callback after it.
    """

    number: int
    begin_s: float
    took_s: float


class Round(msgspec.Struct, frozen=True):
    """Calls in turn: some for each operation that is watched, and some without.

    Attributes:
        watches: The calls in which an operation was watched.
        plain_s: Seconds of those without.
    """

    watches: Sequence[Watch]
    plain_s: Sequence[float]


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """Times of operations that add up to what a call without the profiler takes for them.

    Attributes:
        events: The events of a run, with composed times. The time of an operation ends where that of the
            next one begins, so it contains the interpreter's own work between them.
        between_s: How much of a call is that work: what the begins of operations leave beside the
            profiler's times.
        before_s: How much of a call is before its first operation.
        after_s: How much is after its last one.
        watched: Number of operations that were watched.
        spread_s: The usual distance of a begin from the median of all rounds.
    """

    events: list[Event]
    between_s: float
    before_s: float
    after_s: float
    watched: int
    spread_s: float


def compose(
    runs: Sequence[Sequence[Event]], rounds: Sequence[Round], cost: ProfilerCost, call_s: float
) -> Composition | None:
    """Composes the times of operations from calls in which one was watched and from the profiler's events.

    A watched operation begins later than without by the callback, which is the same time for all. So
    differences of begins do not contain it; the shortest time between the two callbacks of an operation is
    taken off the last operation, whose end is the callback after it.

    Args:
        runs: The events of each profiled run.
        rounds: The calls in which an operation was watched.
        cost: The profiler's part of each event.
        call_s: Seconds of a call without the profiler. Times are scaled by it over the median of the calls
            without a watch, so that a machine that became slower meanwhile does not matter.

    Returns:
        The composition; None where too little was watched, or operations run in no fixed order, as in loops.
    """
    order = [event.number for event in runs[0]] if runs else []
    if len(rounds) < _LEAST_ROUNDS or len(set(order)) != len(order):
        return None
    if any([event.number for event in events] != order for events in runs):
        return None
    begins = _medians(rounds, order)
    if len(begins) < _LEAST_WATCHED or (begins[0][0], begins[-1][0]) != (0, len(order) - 1):
        return None
    scale = call_s / statistics.median(seconds for one in rounds for seconds in one.plain_s)
    callback_s = min(took_s for _, _, took_s in begins)
    ends = [place for place, *_ in begins[1:]] + [len(order)]
    times = _increasing([begin_s for _, begin_s, _ in begins])
    times.append(times[-1] + begins[-1][2] - callback_s)
    blocks = [
        (begin[0], end, scale * (later - earlier))
        for begin, end, earlier, later in zip(begins, ends, times[:-1], times[1:], strict=True)
    ]
    medians = [
        replace(event, seconds=statistics.median(events[place].seconds for events in runs))
        for place, event in enumerate(runs[0])
    ]
    events, between_s = _divide(medians, blocks, cost.seconds)
    return Composition(
        events=events,
        between_s=between_s,
        before_s=scale * max(times[0] - callback_s, 0.0),
        after_s=max(call_s - scale * (times[-1] - callback_s), 0.0),
        watched=len(begins),
        spread_s=scale * _spread(rounds),
    )


def _medians(rounds: Sequence[Round], order: Sequence[int | None]) -> list[tuple[int, float, float]]:
    """Returns the place of each watched operation, with the medians of its begin and of what it took."""
    found: dict[int, list[Watch]] = {}
    for one in rounds:
        for watch in one.watches:
            found.setdefault(watch.number, []).append(watch)
    places = {number: place for place, number in enumerate(order)}
    return sorted(
        (
            places[number],
            statistics.median(watch.begin_s for watch in watches),
            statistics.median(watch.took_s for watch in watches),
        )
        for number, watches in found.items()
        if number in places and len(watches) >= _LEAST_ROUNDS
    )


def _increasing(values: Sequence[float]) -> list[float]:
    """Returns the nearest values by least squares that do not decrease, by pooling adjacent violators."""
    pools: list[tuple[float, int]] = []
    for value in values:
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (later, count), (earlier, other) = pools.pop(), pools.pop()
            pools.append(((later * count + earlier * other) / (count + other), count + other))
    return [value for value, count in pools for _ in range(count)]


def _divide(
    events: Sequence[Event], blocks: Sequence[tuple[int, int, float]], profiler_s: float
) -> tuple[list[Event], float]:
    """Divides the time of each block between its events; returns them, and the time between operations."""
    divided, between_s = list(events), 0.0
    for begin, end, seconds in blocks:
        own = [max(event.seconds - profiler_s, 0.0) for event in events[begin:end]]
        rest = seconds - sum(own)
        between_s += max(rest, 0.0)
        for place, one in zip(range(begin, end), own, strict=True):
            found = one + rest / len(own) if rest >= 0 else one * seconds / sum(own)
            divided[place] = replace(events[place], seconds=found)
    return divided, between_s


def _spread(rounds: Sequence[Round]) -> float:
    """Returns the median of the distances between begins and the median begin of the same operation."""
    found: dict[int, list[float]] = {}
    for one in rounds:
        for watch in one.watches:
            found.setdefault(watch.number, []).append(watch.begin_s)
    return statistics.median(
        abs(begin_s - statistics.median(begins)) for begins in found.values() for begin_s in begins
    )
