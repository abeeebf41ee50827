"""`coremlscope profile`: times a model and its operations on this machine."""

from __future__ import annotations

import argparse

from coremlscope.cli.command import (
    EVERY,
    Command,
    add_inputs,
    add_model,
    add_precision,
    add_reports,
    add_shape,
    one_of,
)
from coremlscope.cli.inputs import read_inputs
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.progress import progress_bars
from coremlscope.cli.repetitions import add_engine_options, add_function, add_repetitions
from coremlscope.cli.reports import write_reports
from coremlscope.devices.unit import SETTINGS
from coremlscope.engines import ENGINES

__all__ = ["COMMAND"]

_EPILOG = """\
Compilation (binding, lowering and building the session, cold each time), loading what was
compiled, and prediction are each repeated; warm-ups are dropped. Times of operations come from
the engine's own profiler. On a Mac, Core ML itself is measured, through coremltools, under
--compute-units; that path is not yet confirmed on a device. Elsewhere, and with --engine
onnxruntime, nothing is a measurement of Core ML or of a Neural Engine. With --device the profile
also contains plans and estimates, under every setting of compute units.

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
        type=one_of("compute units", *SETTINGS, EVERY),
        default="all",
        help=f"{', '.join(SETTINGS)}, or every: what Core ML is measured under, and the first setting of"
        " plans and estimates; other engines do not depend on it (default: all)",
    )
    parser.add_argument(
        "--engine",
        metavar="NAME",
        type=one_of("engine", "coreml", *(name for name, *_ in ENGINES)),
        help="coreml, on a Mac only and the default there, or onnxruntime",
    )
    parser.add_argument(
        "--trace",
        action="store_true",
        help="on a Mac with Xcode, also record with Instruments when each compute unit is busy",
    )
    add_precision(parser)
    add_function(parser, "to time")
    add_inputs(parser)
    add_shape(parser)
    add_engine_options(parser)
    add_devices(
        parser,
        "also plan and estimate for these chips or devices, without measurements: m1, iphone-15-pro"
        " (see `coremlscope estimate`)",
    )
    add_reports(parser, ".html, .json, .md, .csv, .txt or .trace.json", "RENDERERS", json="the profile")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.execution.wiring import interface_of
    from coremlscope.render import render_console

    shapes = dict(arguments.shape)
    model = api.read(arguments.model)
    _, description = interface_of(model, arguments.function)
    inputs = read_inputs(description, arguments.input, shapes, arguments.resize)
    with progress_bars(not arguments.quiet) as progress:
        profile = api.profile(
            model,
            function=arguments.function,
            shapes=shapes,
            inputs=inputs,
            compute_units=arguments.compute_units,
            devices=arguments.device,
            os=arguments.os,
            iterations=arguments.iterations,
            compile_iterations=arguments.compile_iterations,
            load_iterations=arguments.load_iterations,
            warmups=arguments.warmups,
            threads=arguments.threads,
            seed=arguments.seed,
            random_weights=arguments.random_weights,
            precision=arguments.precision,
            engine=arguments.engine,
            trace=arguments.trace,
            progress=progress,
        )

    def tables(width: int, color: bool) -> str:
        return render_console(profile, width=width, color=color)

    write_reports(profile, arguments, tables)
    return next((finding.exit_code for finding in profile.findings if finding.severity == "error"), 0)


COMMAND = Command(
    name="profile",
    doc="Time a model on this machine and show where the time goes.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
