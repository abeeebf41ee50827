"""A recorded program while it runs, on the terminal or as a local web page."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.base.errors import UsageError
from coremlscope.cli.terminal import draw, has_color, print_note, print_result, terminal_width

if TYPE_CHECKING:
    from coremlscope.dropin.tracing.session import RecordedProgram

_WINDOW_S, _UPDATE_S = 10, 0.5
_LINES_OF_OUTPUT = 5


@contextlib.contextmanager
def serve_page(program: RecordedProgram) -> Iterator[None]:
    """Serves a recording inside the context, and on a terminal until Ctrl-C is pressed after that."""
    from coremlscope.server.limits import ServerLimits
    from coremlscope.server.live import serve_program
    from coremlscope.server.server import Address

    with serve_program(lambda: program.trace, Address(), ServerLimits()) as (url, answer):
        print_result(f"{url}\n")
        thread = threading.Thread(target=answer, name="coremlscope page", daemon=True)
        thread.start()
        yield
        if sys.stdout is not None and sys.stdout.isatty():
            print_note("the program has ended; press Ctrl-C to stop the page")
            with contextlib.suppress(KeyboardInterrupt):
                thread.join()


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
