"""`coremlscope evidence`: operations on which plans by rules and by Core ML differ, to correct the rules."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.cli.command import Command, add_compute_units, add_output, read_path, write_output

__all__ = ["COMMAND"]

_EPILOG = """\
Sources are saved profiles that contain Core ML's plan, files that `coremlscope import` reads (with
--model and, where the file does not say, --device and --os), and on a Mac models, for which Core
ML is asked (not yet confirmed on a device). The result is a JSON file with a row for each
operation that Core ML runs on another unit than our rules say: its type, shapes, small parameters,
what either side says, and planned costs.

It contains no weights, paths or descriptions, and the author's names only with --names; Core ML's
messages are searched for these names. Read it before you send it.

examples:
  coremlscope evidence profile.json -o evidence.json
  coremlscope evidence analytics.mil --model model.mlpackage --device m1 --os 14.5 -o evidence.json
  coremlscope evidence model.mlpackage --compute-units every -o evidence.json
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", metavar="SOURCE", type=read_path, nargs="+", help="saved profiles, imported files, models"
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        type=Path,
        help="the model of profiles and imported files: shapes and small parameters are read from it",
    )
    parser.add_argument(
        "--device", metavar="NAME", help="the device or chip of imported files, where they do not say"
    )
    parser.add_argument("--os", metavar="VERSION", help="its system: 'macOS 14.5'")
    add_compute_units(parser, "what Core ML is asked for on a Mac")
    parser.add_argument("--all", action="store_true", help="include operations on which both plans agree")
    parser.add_argument("--names", action="store_true", help="include the author's names of operations")
    add_output(parser, "evidence")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.render.json import render_values
    from coremlscope.render.words import plural

    found = api.evidence(
        *arguments.sources,
        model=arguments.model,
        device=arguments.device,
        os=arguments.os,
        compute_units=arguments.compute_units,
        has_names=arguments.names,
        has_all=arguments.all,
    )
    rows = plural(sum(len(plan.rows) for plan in found.plans), "row")
    compared = plural(sum(plan.compared for plan in found.plans), "operation")
    note = f": {rows}, out of {compared} that were compared"
    write_output(arguments, render_values(found.to_json()), note)
    return 0


COMMAND = Command(
    name="evidence",
    doc="Write where our plans differ from Core ML's, to correct the rules.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
