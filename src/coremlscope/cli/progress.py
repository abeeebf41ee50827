"""Progress on standard error: bars on a terminal, elsewhere a line every ten seconds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coremlscope.cli.terminal import print_note

__all__ = ["phase_words", "progress_bars"]

_REDRAW_S = 0.1
#: Seconds between two lines where no bars can be drawn.
_TOLD_EVERY_S = 10.0
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
    "probe": "probing layers",
}


def phase_words(phase: str) -> str:
    """The name of a phase, for people."""
    return _WORDS.get(phase, phase)


@contextmanager
def progress_bars(is_wanted: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yields a function that takes a phase, the repetitions done, and how many there will be; None where no
    progress is wanted.

    The bar of a phase disappears when the next phase begins, and the last one at the end. Without a terminal,
    long work says where it is in lines, which stay.
    """
    if not is_wanted or sys.stderr is None:
        yield None
        return
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Bars are redrawn between repetitions, not by a thread, which would disturb the measurement.
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bars:
        current: tuple[str, TaskID] | None = None
        drawn = 0.0

        def show(phase: str, done: int, total: int) -> None:
            nonlocal drawn, current
            if current is None or current[0] != phase:
                for task in bars.tasks:
                    bars.update(task.id, visible=False)
                current = phase, bars.add_task(phase_words(phase), total=total)
            bars.update(current[1], completed=done, total=total)
            if done == 0 or time.monotonic() - drawn > _REDRAW_S:
                bars.refresh()
                drawn = time.monotonic()

        yield show


def _lines() -> Callable[[str, int, int], None]:
    """Returns a function that prints a line where the last one was printed some time ago."""
    begun = told = time.monotonic()

    def show(phase: str, done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= _TOLD_EVERY_S:
            told = now
            print_note(f"{phase_words(phase)} {done}/{total}, after {now - begun:.0f} s")

    return show
