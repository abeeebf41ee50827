"""`coremlscope import`: a profile out of files that Core ML, Xcode and other tools wrote about a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.cli.command import Command, add_reports, read_path
from coremlscope.cli.progress import progress_line
from coremlscope.cli.reports import add_share, share_evidence, write_reports
from coremlscope.reports.renderers import RENDERERS

_EPILOG = """\
Files that are read: analytics.mil, which Core ML writes when it compiles a program; performance
reports of Xcode (.mlperf, or report.json alone); the JSON that CoreMLProfiler exports; answers
of coremltools' runner on devices, and dumps of its plans and benchmarks; results.json of the
app that `coremlscope runner` writes; debug information, events and compiled models (.aimodelc)
of Core AI; XML of `xctrace export`, of any size; pasted call stacks; readings of powermetrics, macmon
and mactop; logs, profiles and assignments of ONNX Runtime, whose counts and operators are compared
with the rules of its Core ML provider where --model names the .onnx file.
Several files of one model become one profile. With --model the operations are those of the
model, and the files' are joined to them; without it they are those of the file that lists the
most.

Nothing is measured here: every figure is labelled with the file that contains it. A saved profile is
read as it is; `compare` and `serve` read all of these files as they are.

--share writes a row for each operation that Core ML runs on another unit than our rules say: its type,
shapes, small parameters (with --model), what either side says, and planned costs. The file contains no
weights, paths or descriptions, and none of the author's names. Read it before you send it.

examples:
  coremlscope import analytics.mil --model model.mlpackage -o profile.json
  coremlscope import report.mlperf compute_plan.json --model model.mlpackage -o report.html
  coremlscope import analytics.mil --device m1 --os "macOS 14.5"
  coremlscope import profile.json --share evidence.json
  coremlscope import session.log --model model.onnx
  coremlscope import toc.xml ane.xml coreml.xml power.plist -o profile.json
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", metavar="FILE", type=read_path, nargs="+", help="files of one model, or a saved profile"
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        type=Path,
        help="the model: .mlpackage, .mlmodelc, .mlmodel, .aimodel, .onnx or .zip; or App.ipa#NAME",
    )
    parser.add_argument(
        "--device", metavar="NAME", help="the device or chip that the files are from, where they do not say"
    )
    parser.add_argument("--os", metavar="VERSION", help="its system: 'macOS 14.5'")
    add_share(parser)
    add_reports(parser, RENDERERS)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api

    with progress_line(not arguments.quiet) as progress:
        profile = api.import_files(
            *arguments.files,
            model=arguments.model,
            device=arguments.device,
            os=arguments.os,
            progress=progress,
        )

    share_evidence(profile, arguments)
    write_reports(profile, arguments)
    return 0


COMMAND = Command(
    name="import",
    doc="Read what Core ML, Xcode and other tools wrote about a model.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
