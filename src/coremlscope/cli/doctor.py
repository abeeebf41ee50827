"""`coremlscope doctor`: what works on this machine, what a log says, why a model does not run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.base.errors import UsageError
from coremlscope.base.folders import check_regular
from coremlscope.cli.command import Command, add_reports
from coremlscope.cli.reports import write_reports
from coremlscope.reports.renderers import DOCTOR_RENDERERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coremlscope.devices import OSRelease
    from coremlscope.reports.document import Document
    from coremlscope.studies.doctor.log import LogReport
    from coremlscope.studies.doctor.machine import Check
    from coremlscope.studies.doctor.model import ModelReport

_STDIN = "-"
#: Suffixes of models, also of files that are none.
_MODELS = (".mlmodel", ".mlpackage", ".mlmodelc", ".aimodel")
#: Pipes that a shell opens for a command, as for `<(…)`, which are read once.
_OPEN_ALREADY = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
#: The exit code where something that coremlscope needs is broken, or a model that is examined.
_BROKEN = 1
#: What problems of a model prevent that counts as broken.
_GRAVE = frozenset({"nothing works", "not in Core ML"})
_EPILOG = """\
Without a file it checks this machine; nothing is downloaded, and missing tools are no failure. A
log or crash report (.ips) is searched for known failures of Core ML, each explained with its
source; it may be of any size. A model is checked for what prevents it from loading or running; the
exit code is 1 where Core ML does not load or run it.

examples:
  coremlscope doctor
  coremlscope doctor app.log crash.ips -o crash.html
  log stream --predicate 'subsystem CONTAINS "coreml"' | coremlscope doctor -
  coremlscope doctor model.mlpackage --os "iOS 16,macOS 13"
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="a log, a crash report or a model; - reads a log from standard input",
    )
    parser.add_argument(
        "--os", metavar="SYSTEM,…", help='systems that models have to load on: "iOS 16,macOS 13"'
    )
    add_reports(parser, DOCTOR_RENDERERS)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.files:
        return _examine(arguments)
    if arguments.os is not None:
        raise UsageError("--os needs a model", "add the path of a model")
    from coremlscope.studies.doctor.machine import check_machine

    _write(arguments, checks := check_machine(), lambda width, color: _tables(checks, width, color))
    return _BROKEN if any(check.status == "broken" for check in checks) else 0


def _tables(checks: Sequence[Check], width: int, color: bool) -> str:
    try:
        from coremlscope.reports.doctor import checks_document
        from coremlscope.reports.terminal.writer import write_terminal

        return write_terminal(checks_document(checks), width=width, color=color)
    except ImportError:  # What draws tables is one of the things that may be broken.
        return "\n".join(
            f"{check.status}: {check.name}: {check.text} {check.fix}".strip() for check in checks
        )


def _examine(arguments: argparse.Namespace) -> int:
    from coremlscope.reports.doctor import reports_document
    from coremlscope.studies.doctor.model import parse_systems

    systems = () if arguments.os is None else parse_systems(arguments.os)
    if arguments.files.count(_STDIN) > 1:
        raise UsageError("standard input is named twice", "give - once")
    reports = [_report(name, systems) for name in arguments.files]
    _write(arguments, reports, reports_document(reports))
    effects = {one.effect for report in reports for one in getattr(report, "problems", ())}
    return _BROKEN if effects & _GRAVE else 0


def _write(
    arguments: argparse.Namespace,
    found: Sequence[Check] | Sequence[LogReport | ModelReport],
    shown: Document | Callable[[int, bool], str],
) -> None:
    """Writes the reports of `-o`, and prints the tables or JSON."""

    def as_json() -> str:
        from coremlscope.reports.doctor import render_doctor_json

        return render_doctor_json(found)

    write_reports(found, arguments, shown, as_json, DOCTOR_RENDERERS)


def _report(name: str, systems: Sequence[OSRelease]) -> LogReport | ModelReport:
    from coremlscope.formats import container
    from coremlscope.formats.mlmodel import is_other_model
    from coremlscope.studies.doctor.log import examine_log
    from coremlscope.studies.doctor.model import examine_model
    from coremlscope.studies.doctor.provider import examine_onnx

    if name == _STDIN:
        if sys.stdin is None:
            raise UsageError("standard input is closed", "give the path of a log")
        return examine_log(sys.stdin.buffer, name)
    path = Path(name)
    try:
        if path.suffix.lower() == ".onnx" and path.is_file():
            return examine_onnx(path)
        if path.is_dir() or container.sniff(path) is not None or container.split_name(path) is not None:
            return examine_model(path, systems)
        if path.is_file() and (is_other_model(path) or path.suffix.lower() in _MODELS):
            return examine_model(path, systems)
        if not name.startswith(_OPEN_ALREADY):
            check_regular(path)
        with path.open("rb") as stream:
            return examine_log(stream, name)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}", "check the path") from None


COMMAND = Command(
    name="doctor",
    doc="Check this machine, explain a log, or say why a model does not run.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
