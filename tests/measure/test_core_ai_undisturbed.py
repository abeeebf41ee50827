"""Times of operations of Core AI's interpreter that add up to a call without the profiler."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coremlscope.measure.coreai import timing_child
from coremlscope.measure.coreai.operations import Event
from coremlscope.measure.coreai.timing_child import _Run
from coremlscope.measure.coreai.undisturbed import ProfilerCost, Round, Watch, compose

_US = 1e-6
#: What five operations take, in µs, what is before and after them, and what the profiler adds to each.
_WORK, _BEFORE, _AFTER, _PROFILER = (4.0, 1.0, 1.0, 10.0, 4.0), 30.0, 20.0, 13.0
#: What the interpreter takes after each operation, and what a callback takes.
_BETWEEN, _CALLBACK = 2.0, 15.0
_CALL = _BEFORE + sum(_WORK) + _BETWEEN * (len(_WORK) - 1) + _AFTER


def _runs() -> list[list[Event]]:
    return [
        [Event(7 + place, None, "op", (work + _PROFILER) * _US) for place, work in enumerate(_WORK)]
        for _ in range(3)
    ]


def _rounds(watched: tuple[int, ...], factor: float = 1.0) -> list[Round]:
    """Returns what watching would tell of these operations, on a machine slower by a factor."""
    found = []
    for place in watched:
        begin = _BEFORE + sum(_WORK[:place]) + place * _BETWEEN
        took = _WORK[place] + _CALLBACK
        found.append(Watch(7 + place, (begin + _CALLBACK) * factor * _US, took * factor * _US))
    return [Round(found, [_CALL * factor * _US])] * 3


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_operations_add_up_to_the_time_between_their_begins(factor: float) -> None:
    recording = ProfilerCost(seconds=_PROFILER * _US, events=5)
    found = compose(_runs(), _rounds((0, 2, 4), factor), recording, _CALL * _US)
    assert found is not None
    # The shortest watched operation took 1 µs beside its callback, which is too much for a callback by that.
    error = min(_WORK[place] for place in (0, 2, 4))
    inside = _CALL - _BEFORE - _AFTER
    assert sum(event.seconds for event in found.events) == pytest.approx((inside - error) * _US)
    assert [event.seconds / _US for event in found.events[:4]] == pytest.approx([6.0, 3.0, 3.0, 12.0])
    assert found.between_s == pytest.approx(4 * _BETWEEN * _US)
    outside = found.before_s + found.after_s
    assert outside + sum(event.seconds for event in found.events) == pytest.approx(_CALL * _US)
    assert (found.watched, found.spread_s) == (3, 0.0)


def test_times_of_the_profiler_that_are_too_long_are_scaled_down() -> None:
    found = compose(_runs(), _rounds((0, 2, 4)), ProfilerCost(), _CALL * _US)
    assert found is not None
    first, second = found.events[:2]
    assert first.seconds + second.seconds == pytest.approx(9 * _US)
    assert first.seconds / second.seconds == pytest.approx((4 + _PROFILER) / (1 + _PROFILER))
    assert found.between_s == 0.0


def test_begins_that_decrease_are_noise() -> None:
    rounds = [Round([Watch(7, 40e-6, 2e-5), Watch(9, 30e-6, 2e-5), Watch(11, 50e-6, 2e-5)], [9e-5])] * 3
    found = compose(_runs(), rounds, ProfilerCost(), 9e-5)
    assert found is not None
    # Both begins are at 35 µs; the next one is 15 µs later, for operations of 14 and 23 µs by the profiler.
    expected = [0, 0, 15 * 14 / 37, 15 * 23 / 37, 0]
    assert [event.seconds / _US for event in found.events] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("runs", "rounds"),
    [
        ([], _rounds((0, 4))),
        (_runs(), _rounds((0, 4))[:2]),  # too few rounds
        (_runs(), _rounds((0, 2))),  # the last operation was not watched
        ([[*events, events[0]] for events in _runs()], _rounds((0, 4))),  # a loop
        ([_runs()[0], _runs()[0][::-1]], _rounds((0, 4))),  # another order
    ],
)
def test_too_little_is_known(runs: list[list[Event]], rounds: list[Round]) -> None:
    assert compose(runs, rounds, ProfilerCost(), _CALL * _US) is None


class _Program:
    """A program of which each of forty operations takes 1 s, and each callback 5 s."""

    is_system = False
    runtime = SimpleNamespace(
        CompileIdentifiers=lambda number, delegate: number,
        IntermediateLogger=lambda requested_intermediates, callback, is_enabled: (
            requested_intermediates,
            callback,
        ),
    )

    def __init__(self, clock: list[float]) -> None:
        self.clock, self.called_s, self.began = clock, 0.0, 0.0
        self._logger: tuple[list[int], Any] = ([], None)

    def observe(self, intermediate_logger: Any = ((), None)) -> None:
        self._logger = intermediate_logger

    def predict(self) -> None:
        self.began = self.clock[0]
        numbers, callback = self._logger
        for number in range(40):
            for kind in ("input", "output"):
                if number in numbers:
                    self.clock[0] += 5
                    callback([], kind, None)
                self.clock[0] += 0.5
        self.called_s += self.clock[0] - self.began


def test_some_operations_are_watched_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sent = [100.0], []
    monkeypatch.setattr(timing_child, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(timing_child, "send", lambda **message: sent.append(message))
    monkeypatch.setattr(timing_child, "_WATCHED_S", 1e9)
    run = _Run.__new__(_Run)
    program = _Program(clock)
    run._program = program  # type: ignore[assignment]
    operations = [(number, None, "op", 1) for number in range(40)]
    run._watch_operations(program.predict, operations, profiled_s=41.0)
    assert not sent  # The profiler hardly slows the call.
    run._watch_operations(program.predict, operations, profiled_s=80.0)
    rounds = [message for message in sent if "watched" in message]
    watched, plain_s = rounds[0]["watched"], rounds[0]["plain_s"]
    assert len(rounds) == 15
    assert set(plain_s) == {40.0}
    assert len({number for number, *_ in watched}) == 17
    assert {(number, begin_s - number, took_s) for number, begin_s, took_s in watched} >= {
        (0, 5.0, 5.5),
        (39, 5.0, 5.5),
    }
