"""Reads saved recordings: of Python programs, and exports of Instruments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from coremlscope.base.errors import UsageError
from coremlscope.dropin.tracing.instruments import read_instruments
from coremlscope.dropin.tracing.mistakes import find_mistakes
from coremlscope.results.trace import Trace

#: Near the beginning of exports of Instruments, and of recordings of programs.
_BEGINNINGS = re.compile(rb"<trace-query-result|^\s*\{\s*\"schema\"\s*:\s*\"coremlscope\.trace/")
_HEAD_BYTES = 4096


def is_recording(path: str | Path) -> bool:
    """Returns True if a file is a recording of a program, or an export of Instruments."""
    if Path(path).suffix not in (".json", ".xml"):
        return False
    try:
        if not Path(path).is_file():  # to open a pipe waits for who writes it
            return False
        with Path(path).open("rb") as file:
            return _BEGINNINGS.search(file.read(_HEAD_BYTES)) is not None
    except OSError:
        return False


def read_recording(paths: Sequence[str | Path], fps: float | None = None) -> Trace:
    """Reads one recording, and searches it for mistakes where it has not been, or a frame rate is given.

    Args:
        paths: A recording of a program (`.json`), or the exports of one recording of Instruments (`.xml`).
        fps: Frames per second that the program should reach; None for what the recording says.

    Raises:
        UsageError: A file cannot be read or is damaged, or they are of several recordings.
    """
    files = [Path(path) for path in paths]
    own = [file for file in files if file.suffix != ".xml"]
    if own and len(files) > 1:
        raise UsageError(
            f"{own[0]} is a recording of its own",
            "name one recording; `coremlscope compare` shows two next to each other",
        )
    trace = Trace.load(own[0]) if own else read_instruments(files)
    if fps is not None:
        trace = replace(trace, fps=fps)
    return find_mistakes(trace) if fps is not None or not trace.searched else trace
