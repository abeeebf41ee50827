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
    at_least,
    one_of,
)
from coremlscope.cli.inputs import read_inputs
from coremlscope.cli.lookup import device_names
from coremlscope.cli.progress import progress_bars
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
    _add_repetitions(parser)
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
    parser.add_argument(
        "--threads",
        metavar="N",
        type=at_least(1),
        help="threads of an operation (default: one a physical core)",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=at_least(0),
        default=0,
        help="seed of made-up inputs and weights (default: 0)",
    )
    parser.add_argument(
        "--random-weights",
        action="store_true",
        help="make up weights whose file is absent, to time the structure",
    )
    parser.add_argument(
        "--device",
        metavar="NAME,…",
        type=device_names,
        default=(),
        help="also estimate the latency on these chips or devices: m1, iphone-15-pro; nothing of it is"
        " measured (see `coremlscope estimate`)",
    )
    add_reports(parser)


def _add_repetitions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--iterations", metavar="N", type=at_least(1), default=50, help="timed predictions (default: 50)"
    )
    parser.add_argument(
        "--compile-iterations",
        metavar="N",
        type=at_least(1),
        default=10,
        help="timed compilations (default: 10)",
    )
    parser.add_argument(
        "--load-iterations", metavar="N", type=at_least(1), default=10, help="timed loads (default: 10)"
    )
    parser.add_argument(
        "--warmups",
        metavar="N",
        type=at_least(0),
        help="predictions before the timed ones (default: until times settle)",
    )


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.execution import choose_function

    shapes = dict(arguments.shape)
    model = api.read(arguments.model)
    description = choose_function(model, arguments.function).description
    inputs = read_inputs(description, arguments.input, shapes, arguments.resize)
    with progress_bars(not arguments.quiet) as progress:
        profile = api.profile(
            model,
            inputs=inputs,
            threads=arguments.threads,
            progress=progress,
            compute_units=arguments.compute_units,
            function=arguments.function or "",
            iterations=arguments.iterations,
            compile_iterations=arguments.compile_iterations,
            load_iterations=arguments.load_iterations,
            warmups=arguments.warmups,
            seed=arguments.seed,
            shapes=shapes,
            random_weights=arguments.random_weights,
            precision=arguments.precision,
            devices=arguments.device,
        )
    write_reports(profile, arguments)
    return 0


COMMAND = Command(
    "profile", "Time a model on this machine and show where the time goes.", _EPILOG, _configure, _run
)
