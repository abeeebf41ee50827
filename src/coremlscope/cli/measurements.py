"""`coremlscope measurements`: own measurements of devices, which refine estimates for their chips."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.base.errors import UsageError
from coremlscope.base.writing import check_file, write_file
from coremlscope.cli.command import Command, add_json, add_quiet, one_of, write_result
from coremlscope.cli.terminal import print_note

_SCHEMA = "coremlscope.calibration-report/1"
_EPILOG = """\
add keeps the measurements in files, list shows all beside our estimates, remove forgets those with
the ids, those of the chips, or all.

Files are saved profiles with measurements of Core ML (of a Mac, or of a phone with `coremlscope
profile --on-device` or `coremlscope runner`), files that `coremlscope import` reads, such as
performance reports of Xcode (.mlperf), and tables (.csv) whose first line names the columns:

  model,chip,unit,milliseconds
  Detector.mlpackage,m2,neural_engine,4.31
  Detector.mlpackage,m2,cpu,21.9

Every measurement is compared with our estimate of the same model, on the same chip and unit. All
measurements of a unit of a chip give one factor: one of a single model moves it part of the way,
several that agree nearly all of it. Those far from all others are set apart and reported.
Measurements that mix units, that are of a virtual machine, or were made in low power mode, are
not used. Later estimates for the chip use the factor and say so.

The measurements are kept in the user's data folder (COREMLSCOPE_DATA names another one): numbers
of kernels and times, no weights. --share writes all of them as one file, without the names of models
and files, which others can add.

examples:
  coremlscope measurements add profile.json
  coremlscope measurements add report.mlperf --model Detector.mlpackage
  coremlscope measurements add measured.csv
  coremlscope measurements list
  coremlscope measurements remove m2
  coremlscope measurements list --share measurements.json
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="ACTION", type=one_of("action", "add", "list", "remove"), help="add, list or remove"
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="*", help="files to add; for remove ids, ids of chips, or all"
    )
    parser.add_argument(
        "--model", metavar="MODEL", type=Path, help="the model of files that do not say where theirs is"
    )
    parser.add_argument("--device", metavar="NAME", help="the device or chip of files that do not say")
    parser.add_argument("--os", metavar="VERSION", help="its system: 'macOS 14.5'")
    parser.add_argument("--share", metavar="FILE", type=Path, help="write all measurements for others to add")
    add_json(parser)
    add_quiet(parser)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.api.own_measurements.report import (
        add_measurements,
        list_measurements,
        remove_measurements,
        share_measurements,
    )
    from coremlscope.reports.calibration import calibration_document
    from coremlscope.reports.json import render_values
    from coremlscope.reports.words import plural
    from coremlscope.results.encoding import plain

    names: list[str] = arguments.files
    if bool(names) == (arguments.action == "list"):
        text = {"add": "needs the files to add", "remove": "needs ids to remove"}.get(
            arguments.action, "takes no names"
        )
        raise UsageError(
            f"`coremlscope measurements {arguments.action}` {text}", "see `coremlscope measurements --help`"
        )
    if arguments.share is not None:
        check_file(arguments.share)
    if arguments.action == "add":
        report = add_measurements(*names, model=arguments.model, device=arguments.device, os=arguments.os)
    else:
        report = remove_measurements(*names) if names else list_measurements()
    if arguments.share is not None:
        shared = share_measurements()
        write_file(arguments.share, render_values(shared.to_json()))
        if not arguments.quiet:
            print_note(f"wrote {arguments.share}: {plural(len(shared.measurements), 'measurement')}")
    write_result(
        arguments,
        lambda: render_values({"schema": _SCHEMA, **plain(report)}),
        calibration_document(report),
    )
    return 0


COMMAND = Command(
    name="measurements",
    doc="Add, list and remove your own measurements, which refine estimates.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
