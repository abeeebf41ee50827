"""`coremlscope profile`: how long a model takes on this machine, and where the time goes."""

from __future__ import annotations

import argparse

from coremlscope.cli.command import (
    Command,
    add_inputs,
    add_model,
    add_precision,
    add_reports,
    add_shape,
    one_of,
)
from coremlscope.cli.inputs import read_inputs
from coremlscope.cli.lookup import device_names
from coremlscope.cli.progress import progress_bars
from coremlscope.cli.repetitions import add_engine_options, add_repetitions, measure_options
from coremlscope.cli.reports import write_reports
from coremlscope.devices.unit import SETTINGS

__all__ = ["COMMAND"]

_EPILOG = """\
Compilation (binding, lowering, building the session, cold each time), loading of what was
compiled and prediction are each repeated; warm-ups are dropped. Times of operations come from
the engine's own profiler. Everything is measured on this host: no number is one of Core ML or
of a Neural Engine.

examples:
  coremlscope profile model.mlpackage
  coremlscope profile model.mlpackage --iterations 200 --threads 1 -o report.json -o report.md
  coremlscope profile model.mlpackage --input image=photo.jpg --json - --quiet
  coremlscope profile model.mlpackage --input image=photo.jpg --precision fp16
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_repetitions(parser)
    parser.add_argument(
        "--compute-units",
        metavar="UNITS",
        type=one_of(*SETTINGS),
        default="all",
        help=f"{', '.join(SETTINGS)}: recorded in the report; changes nothing off a Mac (default: all)",
    )
    add_precision(parser)
    parser.add_argument("--function", metavar="NAME", help="the function to time (default: the model's own)")
    add_inputs(parser)
    add_shape(parser)
    add_engine_options(parser)
    parser.add_argument(
        "--device",
        metavar="NAME,…",
        type=device_names,
        default=(),
        help="also estimate the latency on these chips or devices: m1, iphone-15-pro; nothing of it is"
        " measured (see `coremlscope estimate`)",
    )
    add_reports(parser, ".html, .json, .md, .csv, .txt or .trace.json", "RENDERERS")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.execution.wiring import interface_of
    from coremlscope.render import RENDERERS, render_console

    shapes = dict(arguments.shape)
    model = api.read(arguments.model)
    _, description = interface_of(model, arguments.function)
    inputs = read_inputs(description, arguments.input, shapes, arguments.resize)
    request = measure_options(arguments)
    request["precision"] = arguments.precision
    with progress_bars(not arguments.quiet) as progress:
        profile = api.profile(
            model,
            inputs=inputs,
            threads=arguments.threads,
            progress=progress,
            compute_units=arguments.compute_units,
            devices=arguments.device,
            **request,
        )

    def tables(width: int, color: bool) -> str:
        return render_console(profile, width=width, color=color)

    write_reports(profile, arguments, RENDERERS, tables)
    return 0


COMMAND = Command(
    "profile", "Time a model on this machine and show where the time goes.", _EPILOG, _configure, _run
)
