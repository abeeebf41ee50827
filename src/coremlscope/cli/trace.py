"""`coremlscope trace`: records what a program does with Core ML."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.cli.command import Command, Parser, add_reports, at_least, one_of
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import print_note
from coremlscope.errors import UsageError

if TYPE_CHECKING:
    from coremlscope.results.trace import Trace

__all__ = ["COMMAND"]

_EPILOG = """\
The program needs no change: a Python script, or any command that starts Python. Loads and
predictions by coremltools, coremlscope and ONNX Runtime become events with the line that made
the call, also in threads, asyncio, forks and child processes. Off a Mac, models that the program
loads with coremltools are run by coremlscope. Everything after the program's name is passed to
it. The exit code is the program's.

examples:
  coremlscope trace app.py --input photo.jpg
  coremlscope trace -o run.html -o run.trace.json app.py
  coremlscope trace --fps 30 --json run.json -- python -m myapp
  coremlscope trace run.json -o run.html
"""

_ORDERS = ("total", "count", "max", "name")


def _configure(parser: argparse.ArgumentParser) -> None:
    add_reports(
        parser, ".html, .trace.json, .json, .md, .csv, .txt", "TRACE_RENDERERS", json="the whole recording"
    )
    parser.add_argument(
        "--fps",
        metavar="N",
        type=at_least(1),
        help="frames per second to reach; predictions that miss one are counted",
    )
    parser.add_argument(
        "--events",
        metavar="N",
        type=at_least(1000),
        default=1 << 20,
        help="events that each process keeps; newer ones replace older ones (default: 1048576)",
    )
    parser.add_argument(
        "--sort",
        metavar="BY",
        type=one_of("order", *_ORDERS),
        default="total",
        help=f"order of the totals: {', '.join(_ORDERS)} (default: total)",
    )
    parser.add_argument(
        "--fail-on-mistakes", action="store_true", help="exit with 1 if the recording shows mistakes, for CI"
    )
    parser.add_argument(
        "program", metavar="PROGRAM", help="a script, a command, or a recording to show again"
    )
    rest = parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.results.trace import Trace

    if Path(arguments.program).suffix == ".json":
        # Options may follow the recording, as they may follow a model.
        parser = Parser(prog="coremlscope trace")
        _configure(parser)
        _, unknown = parser.parse_known_args([*arguments.arguments, arguments.program], arguments)
        if unknown:
            parser.refuse(unknown[0])
        return _report(arguments, Trace.load(arguments.program), 0)
    from coremlscope.tracing.session import RecordedProgram

    program = RecordedProgram(
        [arguments.program, *arguments.arguments], fps=arguments.fps, capacity=arguments.events
    )
    code = program.wait()
    assert code is not None
    sys.stdout.flush()
    try:
        trace = program.trace
    except UsageError as error:
        if code == 0:
            raise
        print_note(f"nothing was recorded: {error.message}")
        return code
    return _report(arguments, trace, code)


def _report(arguments: argparse.Namespace, trace: Trace, code: int) -> int:
    from coremlscope import render

    write_reports(
        trace,
        arguments,
        lambda width, color: render.render_program(trace, width=width, color=color, order=arguments.sort),
    )
    if code == 0 and arguments.fail_on_mistakes and any(m.severity == "warning" for m in trace.mistakes):
        return 1
    return code


COMMAND = Command(
    name="trace",
    doc="Record what a program does with Core ML, and find mistakes.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
