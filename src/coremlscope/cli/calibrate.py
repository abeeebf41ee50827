"""`coremlscope calibrate`: the user's own measurements of devices, which refine estimates for their chips."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.cli.command import Command, add_json, add_quiet, write_result
from coremlscope.cli.terminal import print_note
from coremlscope.errors import UsageError
from coremlscope.writing import check_file, write_file

__all__ = ["COMMAND"]

_SCHEMA = "coremlscope.calibration-report/1"
_EPILOG = """\
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
of kernels and times, no weights. --export writes them as one file, which others can add.

examples:
  coremlscope calibrate profile.json
  coremlscope calibrate report.mlperf --model Detector.mlpackage
  coremlscope calibrate measured.csv
  coremlscope calibrate
  coremlscope calibrate --remove m2
  coremlscope calibrate --export measurements.json
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", type=Path, nargs="*", help="measurements to add; without any, list them"
    )
    parser.add_argument(
        "--model", metavar="MODEL", type=Path, help="the model of files that do not say where theirs is"
    )
    parser.add_argument("--device", metavar="NAME", help="the device or chip of files that do not say")
    parser.add_argument("--os", metavar="VERSION", help="its system: 'macOS 14.5'")
    parser.add_argument(
        "--remove", metavar="ID,…", help="remove measurements: their ids, ids of chips, or all"
    )
    parser.add_argument("--export", metavar="FILE", type=Path, help="write all measurements to a file")
    parser.add_argument(
        "--names", action="store_true", help="include the names of models and files in the exported file"
    )
    add_json(parser)
    add_quiet(parser)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.own_measurements.report import remove
    from coremlscope.render.json import render_values
    from coremlscope.render.terminal.calibration import render_calibration
    from coremlscope.results.encoding import plain

    if arguments.export is not None:
        return _export(arguments)
    if arguments.remove is not None:
        if arguments.files:
            raise UsageError("measurements cannot be added and removed at once", "leave out --remove")
        report = remove([name for name in arguments.remove.split(",") if name])
    else:
        report = api.calibrate(
            *arguments.files, model=arguments.model, device=arguments.device, os=arguments.os
        )
    write_result(
        arguments,
        lambda: render_values({"schema": _SCHEMA, **plain(report)}),
        lambda width, color: render_calibration(report, width=width, color=color),
    )
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from coremlscope.own_measurements.report import export
    from coremlscope.render.json import render_values
    from coremlscope.render.words import plural

    if arguments.files or arguments.remove is not None:
        raise UsageError("--export writes what was added before", "leave out files and --remove")
    check_file(arguments.export)
    exported = export(has_names=arguments.names)
    write_file(arguments.export, render_values(exported.to_json()))
    if not arguments.quiet:
        print_note(f"wrote {arguments.export}: {plural(len(exported.measurements), 'measurement')}")
    return 0


COMMAND = Command(
    name="calibrate",
    doc="Refine estimates with your own measurements of a Mac or phone.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
