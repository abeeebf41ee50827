"""Progress on standard error: a live line on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from coremlscope.base.units import format_duration
from coremlscope.cli.terminal import draw, draws, print_note, terminal_width

#: Takes a phase, the repetitions done, and how many there will be.
Shown = Callable[[str, int, int], None]

#: Seconds between two looks at the line, and between two lines: redrawn, and printed.
_TICK_S, _REDRAW_S, _PRINT_S = 0.5, 0.1, 10.0
_WORDS = {
    "compile": "compiling",
    "first load": "loading first",
    "load": "loading",
    "warm-up": "warming up",
    "predict": "predicting",
    "operations": "profiling operations",
    "fp16": "rounding to fp16",
    "interleaved": "predicting in rounds",
    "read": "reading, MB",
    "energy": "reading energy",
    "record": "starting to record",
    "export": "exporting tables",
    "choose the engine": "choosing the engine",
    "search": "testing parts",
}


@contextmanager
def progress_line(is_wanted: bool, show: Callable[[str], str] = lambda text: text) -> Iterator[Shown | None]:
    """Yields what shows progress; None where none is wanted. On a terminal the line disappears at the end.

    Args:
        is_wanted: Whether progress is shown.
        show: Returns what a terminal shows, from the line.
    """
    if not is_wanted or sys.stderr is None:
        yield None
        return
    line = _Line(show, is_drawn=draws())
    try:
        yield line
    finally:
        line.close()


class _Line:
    """The line on the present phase, whose seconds go on between repetitions.

    It is drawn by this process while another one measures.
    """

    def __init__(self, show: Callable[[str], str], *, is_drawn: bool) -> None:
        self._show, self._is_drawn = show, is_drawn
        self._begun = self._told = time.monotonic()
        self._phase, self._count = "starting", ""
        self._seconds: list[float] = []
        self._lock, self._closed = threading.Lock(), threading.Event()
        threading.Thread(target=self._tick, name="progress", daemon=True).start()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """Shows a phase, the repetitions done, and how many there will be."""
        with self._lock:
            self._begin(phase)
            self._count = f" {done}/{total}"
            self._tell(at_once=self._is_drawn and done <= 1)

    def sampled(self, phase: str, seconds: Sequence[float]) -> None:
        """Notes seconds of repetitions, whose median the line says from the next call on."""
        with self._lock:
            self._begin(phase)
            self._seconds += seconds

    def close(self) -> None:
        """Removes the line."""
        self._closed.set()
        with self._lock, suppress(BrokenPipeError):
            draw("")

    def _begin(self, phase: str) -> None:
        if phase != self._phase:
            self._phase, self._seconds = phase, []

    def _tick(self) -> None:
        while not self._closed.wait(_TICK_S):
            with self._lock:
                if not self._closed.is_set():
                    self._tell()

    def _tell(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if not at_once and now - self._told < (_REDRAW_S if self._is_drawn else _PRINT_S):
            return
        self._told = now
        median = ""
        if self._seconds:
            from statistics import median as median_of

            median = f", median {format_duration(median_of(self._seconds))}"
        words = _WORDS.get(self._phase, self._phase)
        text = f"{words}{self._count}{median}, after {now - self._begun:.0f} s"
        with suppress(BrokenPipeError):  # the result is worth more than its progress
            if self._is_drawn:
                draw(self._show(text[: terminal_width() - 1]))
            else:
                print_note(text)
