"""`coremlscope trace`: records what a program does with Core ML."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from coremlscope.base.errors import CoremlscopeError, UsageError
from coremlscope.cli.command import Command, Parser, add_reports, at_least
from coremlscope.cli.live import show_live
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import draws, print_note
from coremlscope.reports.renderers import TRACE_RENDERERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coremlscope.devices.unit import ComputeUnits
    from coremlscope.results.plan import PlannedOp
    from coremlscope.results.trace import Trace, TracedModel

_EPILOG = """\
The program needs no change: a Python script, or any command that starts Python. Loads and
predictions by coremltools, coremlscope and ONNX Runtime become events with the line that made
the call, also in threads, asyncio, forks and child processes. Off a Mac, models that the program
loads with coremltools are run by coremlscope. Everything after the program's name is passed to
it. The exit code is the program's.

XML of `xctrace export` is shown in the same lanes and searched for the same mistakes; name all
exports of a recording at once. `coremlscope compare slow.json fast.json` shows two recordings.

--live shows it while the program runs: predictions per second by model, the share of time in each
lane, the last seconds as lanes, mistakes as soon as they show, and the last lines that the program
prints; everything that it printed follows at the end.

examples:
  coremlscope trace app.py --input photo.jpg
  coremlscope trace -o run.html -o run.trace.json app.py
  coremlscope trace --fps 30 --json run.json -- python -m myapp
  coremlscope trace --operations -o run.html app.py
  coremlscope trace --live app.py
  coremlscope trace run.json -o run.html
  coremlscope trace --device iphone-15-pro app.py
  coremlscope trace coreml.xml ane.xml gpu.xml -o lanes.html
"""

#: Events that each process keeps; fewer, which are quick to read, while they are shown.
_EVENTS, _LIVE_EVENTS = 1 << 20, 1 << 15


def _configure(parser: argparse.ArgumentParser) -> None:
    _add_options(parser)
    parser.add_argument(
        "program", metavar="PROGRAM", nargs="?", help="a script, a command, or a recording to show again"
    )
    rest = parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_reports(parser, TRACE_RENDERERS, json="the whole recording")
    parser.add_argument(
        "--fps",
        metavar="N",
        type=at_least(1),
        help="frames per second to reach; predictions that miss one are counted",
    )
    parser.add_argument("--live", action="store_true", help="show it on the terminal while the program runs")
    parser.add_argument(
        "--operations",
        action="store_true",
        help="record the operations inside the first 100 runs of each loaded model; runs take longer",
    )
    parser.add_argument(
        "--pid",
        metavar="N",
        type=at_least(1),
        help="record a process that runs already (needs Python 3.14 on both sides)",
    )
    parser.add_argument(
        "--seconds", metavar="S", type=at_least(1), default=10, help="how long, with --pid (default: 10)"
    )
    add_devices(parser, "devices: compare the units that models ask for with their plans")
    parser.add_argument(
        "--fail-on-mistakes", action="store_true", help="exit with 1 if the recording shows mistakes, for CI"
    )


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.dropin.tracing.saved import read_recording

    if Path(arguments.program or "").suffix in (".json", ".xml"):
        # Options may follow recordings, as they may follow a model.
        parser = Parser(prog="coremlscope trace")
        _add_options(parser)
        parser.add_argument("recordings", nargs="+")
        _, unknown = parser.parse_known_intermixed_args([arguments.program, *arguments.arguments], arguments)
        if unknown:
            parser.refuse(unknown[0])
        return _report(arguments, read_recording(arguments.recordings, arguments.fps), 0)
    from coremlscope.dropin.tracing.session import record_process

    if arguments.pid is not None:
        return _report(arguments, record_process(arguments.pid, arguments.seconds, fps=arguments.fps), 0)
    if not arguments.program:
        raise UsageError("PROGRAM is missing", "name a script or a command, or a process with --pid")
    return _record(arguments)


def _record(arguments: argparse.Namespace) -> int:
    """Records a program that is started here, and returns its exit code."""
    from coremlscope.dropin.tracing.session import RecordedProgram

    has_screen = arguments.live and draws() and sys.stdout is not None and sys.stdout.isatty()
    with ExitStack() as stack:
        printed = None
        if has_screen:
            printed = stack.enter_context(NamedTemporaryFile("w+", prefix="coremlscope-", encoding="utf-8"))
        program = RecordedProgram(
            [arguments.program, *arguments.arguments],
            fps=arguments.fps,
            capacity=_LIVE_EVENTS if arguments.live else _EVENTS,
            output=None if printed is None else printed.file,
            operations=arguments.operations,
        )
        stack.enter_context(program)
        if printed is not None:
            show_live(program, Path(printed.name))
        code = program.wait()
        assert code is not None
        if printed is not None:
            printed.seek(0)
            sys.stdout.writelines(printed)
        try:
            trace = program.trace
        except UsageError as error:
            if code == 0:
                raise
            print_note(f"nothing was recorded: {error.message}")
            return code
        return _report(arguments, trace, code)


def _report(arguments: argparse.Namespace, trace: Trace, code: int) -> int:
    from coremlscope.dropin.tracing.units import add_unused_units
    from coremlscope.reports.program.report import program_document

    for device in arguments.device:
        trace = add_unused_units(trace, device, partial(_plan, device, arguments.os))
    write_reports(trace, arguments, program_document(trace))
    if code == 0 and arguments.fail_on_mistakes and any(m.severity == "warning" for m in trace.mistakes):
        return 1
    return code


def _plan(device: str, os: str | None, model: TracedModel, units: ComputeUnits) -> Sequence[PlannedOp]:
    """Returns the planned operations of a recorded model; empty where it cannot be planned."""
    from coremlscope import api

    try:
        profile = api.plan(model.path, device, os=os, compute_units=units)
    except CoremlscopeError as error:
        print_note(f"{model.name} is not planned: {error.message}")
        return ()
    plan = profile.plans[0]
    return plan.ops


COMMAND = Command(
    name="trace",
    doc="Record what a program does with Core ML, and find mistakes.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
