"""A recorded program while it runs, on the terminal."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.base.errors import UsageError
from coremlscope.cli.terminal import draw, has_color, terminal_width

if TYPE_CHECKING:
    from coremlscope.dropin.tracing.session import RecordedProgram

_WINDOW_S, _UPDATE_S = 10, 0.5
_LINES_OF_OUTPUT = 5


def show_live(program: RecordedProgram, printed: Path) -> None:
    """Updates the screen until the program ends.

    Args:
        program: The program.
        printed: The file that has what it printed so far.
    """
    from coremlscope.reports.program.now import now_document
    from coremlscope.reports.terminal.writer import write_terminal

    while program.is_running:
        with contextlib.suppress(UsageError):  # Nothing was recorded so far.
            document = now_document(
                program.trace,
                now_s=program.elapsed_s,
                window_s=_WINDOW_S,
                output=_last_lines(printed),
            )
            draw(write_terminal(document, width=terminal_width(), color=has_color(sys.stderr)))
        program.wait(_UPDATE_S)
    draw("")


def _last_lines(path: Path) -> list[str]:
    """The last lines of a file, from its last few kilobytes."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 4096, 0))
        return file.read().decode("utf-8", "replace").splitlines()[-_LINES_OF_OUTPUT:]
