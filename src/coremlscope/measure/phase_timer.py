"""Repeats and times phases of a measurement in a child process, and sends the times to its parent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from coremlscope.base.processes.channel import send
from coremlscope.runtime.engines.sampling import PHASE_BUDGET_S, Clock, is_settled, sample, spends


class PhaseTimer:
    """Times phases and sends the times to the parent process.

    Args:
        warmups: Predictions before the timed ones; None for as many as it takes.
        early: The phases that end early; see `Settings`.

    Attributes:
        native_ns: Durations of the current phase by the runtime's own clock, which `after` may add.
    """

    def __init__(self, warmups: int | None, early: Sequence[str]) -> None:
        rules = {"compile": spends(PHASE_BUDGET_S), "load": spends(PHASE_BUDGET_S), "predict": is_settled}
        self._warmups = warmups
        self._enough = {phase: rules[phase] for phase in early}
        self.native_ns: list[int] = []

    def repeat(
        self,
        phase: str,
        work: Callable[[], object],
        iterations: int | None,
        *,
        before: Callable[[], object] | None = None,
        after: Callable[[], object] | None = None,
        clock: Clock = time.perf_counter,
    ) -> Sequence[float]:
        """Times a phase, sends its times and returns them in seconds; warm-ups where `iterations` is None."""
        self.native_ns.clear()
        send(begins=phase)

        def done(seconds: float) -> None:
            if after is not None:
                after()
            send(progress=phase, seconds=seconds, native_ns=self.native_ns[-1:])

        warmups = self._warmups if iterations is None else 0
        enough = self._enough.get(phase, lambda _: False)
        taken = sample(work, iterations or 0, warmups, clock=clock, before=before, after=done, enough=enough)
        seconds = taken.seconds or taken.warmups
        send(phase=phase, seconds=seconds, native_ns=self.native_ns)
        return seconds
