"""`coremlscope top`: shows what a program does with Core ML while it runs."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.cli.command import Command, at_least
from coremlscope.cli.terminal import has_color, print_note, print_result, terminal_width
from coremlscope.errors import UsageError

if TYPE_CHECKING:
    from coremlscope.tracing.session import RecordedProgram

__all__ = ["COMMAND"]

#: Events that each process keeps: enough for the window, and quick to read.
_CAPACITY = 1 << 15
_LINES_OF_OUTPUT = 5

_EPILOG = """\
Predictions per second by model, the share of time in each lane, the last seconds as lanes, and
mistakes as soon as they show. The last lines that the program prints are below, and everything that
it printed follows at the end. The exit code is the program's.

examples:
  coremlscope top app.py
  coremlscope top --page app.py
  coremlscope top --window 30 -- python -m myapp --port 8000
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--window", metavar="S", type=at_least(1), default=10, help="seconds that are shown (default: 10)"
    )
    parser.add_argument(
        "--interval",
        metavar="MS",
        type=at_least(50),
        default=500,
        help="milliseconds of an update (default: 500)",
    )
    parser.add_argument(
        "--page", action="store_true", help="show it in a local web page instead, with the lanes of `trace`"
    )
    parser.add_argument("program", metavar="PROGRAM", help="a script or a command")
    rest = parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.tracing.session import RecordedProgram

    command = [arguments.program, *arguments.arguments]
    if arguments.page:
        return _show_page(RecordedProgram(command))
    if sys.stdout is None or not sys.stdout.isatty():  # There is no screen to update.
        with RecordedProgram(command, capacity=_CAPACITY) as program:
            return _summarize(program)
    with (
        tempfile.NamedTemporaryFile("w+", prefix="coremlscope-top-", encoding="utf-8") as printed,
        RecordedProgram(command, capacity=_CAPACITY, output=printed.file) as program,
    ):
        _show(program, Path(printed.name), arguments)
        program.wait()
        printed.seek(0)
        sys.stdout.writelines(printed)
        return _summarize(program)


def _summarize(program: RecordedProgram) -> int:
    """Prints the totals when the program has ended, and returns its exit code."""
    from coremlscope.render.program.terminal import render_program

    code = program.wait()
    assert code is not None
    try:
        trace = program.trace
    except UsageError:
        if code == 0:
            raise
        return code
    print_result(render_program(trace, width=terminal_width(), color=has_color()))
    return code


def _show_page(program: RecordedProgram) -> int:
    """Serves the recording until the program ends, and on a terminal until Ctrl-C is pressed after that."""
    from coremlscope.server.limits import ServerLimits
    from coremlscope.server.live import serve_program
    from coremlscope.server.server import Address

    with serve_program(lambda: program.trace, Address(), ServerLimits()) as (url, answer):
        print_result(f"{url}\n")
        thread = threading.Thread(target=answer, name="coremlscope page", daemon=True)
        thread.start()
        with program:
            code = program.wait()
        if sys.stdout is not None and sys.stdout.isatty():
            print_note("the program has ended; press Ctrl-C to stop the page")
            with contextlib.suppress(KeyboardInterrupt):
                thread.join()
    return code or 0


def _show(program: RecordedProgram, printed: Path, arguments: argparse.Namespace) -> None:
    """Updates the screen until the program ends."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from coremlscope.render.program.now import render_now

    console = Console()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while program.is_running:
            with contextlib.suppress(UsageError):  # Nothing was recorded so far.
                text = render_now(
                    program.trace,
                    now_s=program.elapsed_s,
                    window_s=arguments.window,
                    output=_last_lines(printed),
                    width=console.width,
                    color=has_color(),
                )
                live.update(Text.from_ansi("\n".join(text.splitlines()[: console.height - 1])), refresh=True)
            program.wait(arguments.interval / 1000)


def _last_lines(path: Path) -> list[str]:
    """The last lines of a file, from its last few kilobytes."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 4096, 0))
        return file.read().decode("utf-8", "replace").splitlines()[-_LINES_OF_OUTPUT:]


COMMAND = Command(
    name="top",
    doc="Show what a program does with Core ML while it runs.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
