"""`coremlscope estimate`: how long predictions take on Apple devices, estimated from the file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from coremlscope.cli.command import (
    EVERY,
    Command,
    add_compute_units,
    add_json,
    add_quiet,
    add_shape,
    write_result,
)
from coremlscope.cli.lookup import device_names
from coremlscope.devices.unit import ComputeUnits

__all__ = ["COMMAND"]


_EPILOG = """\
Estimates come from a model of the chips that was fitted to published latencies; docs/accuracy.md
tells how good they are. The interval holds 80 % of the cases. `*` marks chips of which no latencies
are known.

examples:
  coremlscope estimate model.mlpackage --device iphone-13
  coremlscope estimate a.mlpackage b.mlpackage --device iphone-12,m1,a17-pro
  coremlscope estimate model.mlpackage --device every --compute-units every --json - | jq '.[0].latency_ms'
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        metavar="MODEL",
        type=Path,
        nargs="+",
        help=".mlpackage folder, zip of one, or .mlmodel file; weights may be absent",
    )
    parser.add_argument(
        "--device",
        metavar="NAME,…",
        type=device_names,
        required=True,
        help="chips or devices: m1, a17-pro, iphone-15-pro; every for all chips;"
        " `coremlscope devices` lists them",
    )
    parser.add_argument(
        "--os", metavar="VERSION", help="iOS or macOS on all of them: 18, 14.5 (default: the newest of each)"
    )
    add_compute_units(parser, "all of them")
    parser.add_argument("--function", metavar="NAME", help="the function (default: the model's own)")
    add_shape(parser)
    add_json(parser)
    add_quiet(parser)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.render.terminal.estimates import render_estimates, render_estimates_json

    wanted: str = arguments.compute_units
    settings: list[ComputeUnits] = [s for s in get_args(ComputeUnits) if wanted in (EVERY, s)]
    results = []
    for path in arguments.models:
        results += api.estimate(
            path,
            arguments.device,
            os=arguments.os,
            compute_units=settings,
            function=arguments.function,
            shapes=dict(arguments.shape),
        )
    write_result(
        arguments,
        lambda: render_estimates_json(results),
        lambda width, color: render_estimates(results, width=width, color=color),
    )
    return 0


COMMAND = Command(
    "estimate",
    "Estimate how long predictions take on Apple devices, from the file.",
    _EPILOG,
    _configure,
    _run,
)
