"""`coremlscope compare`: what differs between models, saved profiles, devices and settings."""

from __future__ import annotations

import argparse

from coremlscope.cli.command import Command, add_compute_units, add_reports, add_shape, read_path
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.progress import progress_bars
from coremlscope.cli.repetitions import (
    add_engine,
    add_engine_options,
    add_function,
    add_limits,
    add_repetitions,
    limit_options,
    measurement_options,
)
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import print_note

__all__ = ["COMMAND"]

#: The exit code if `--fail-above` finds a slower subject.
_SLOWER = 9
_EPILOG = """\
Models are profiled, and their predictions are timed in interleaved rounds, so that a slowdown of
the machine affects all of them. Saved profiles (`coremlscope profile MODEL -o p.json`) are not
measured again; a file of several profiles counts as several sources. On a Mac, Core ML measures
models one after the other (not yet confirmed on a device), unless --engine names another engine.
Times of different machines are shown but not compared. Operations are matched by name, type and
shape, in the order of the program. `no change` means that the 95 % interval of the ratio of the
medians contains 1.
Plans and estimates are compared separately; they are not measured.

examples:
  coremlscope compare before.mlpackage after.mlpackage
  coremlscope compare main.json branch.json -o compare.md --fail-above 5%
  coremlscope compare model.mlpackage --device iphone-13,iphone-15-pro
  coremlscope compare model.mlpackage --device m1 --compute-units all,cpu_and_gpu
"""


def _percent(text: str) -> float:
    """Parses `5%` or `5`."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage\nwrite it as 5%")
    return share


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        type=read_path,
        nargs="+",
        help="models, saved profiles (.json), and files that `coremlscope import` reads; the first is the"
        " base",
    )
    parser.add_argument(
        "--fail-above",
        metavar="PERCENT",
        type=_percent,
        help=f"exit with code {_SLOWER} if predictions are slower by more than this, even at the lower end of"
        " the interval",
    )
    add_devices(
        parser,
        "also compare plans and estimates for these chips or devices; for a single source, with each other",
    )
    add_compute_units(parser, "for plans and estimates")
    add_repetitions(parser)
    add_limits(parser)
    add_function(parser, "to time")
    add_shape(parser)
    add_engine(parser)
    add_engine_options(parser)
    add_reports(parser, ".html, .json, .md or .txt", "COMPARISON_RENDERERS", json="the comparison")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.render.terminal.comparison import render_comparison
    from coremlscope.verification.migration import add_agreements

    with progress_bars(not arguments.quiet) as progress:
        comparison = api.compare(
            *arguments.sources,
            shapes=dict(arguments.shape),
            devices=arguments.device,
            os=arguments.os,
            compute_units=arguments.compute_units,
            progress=progress,
            **measurement_options(arguments),
            **limit_options(arguments),
        )

    comparison = add_agreements(comparison, shapes=dict(arguments.shape), seed=arguments.seed)

    def tables(width: int, color: bool) -> str:
        return render_comparison(comparison, width=width, color=color)

    write_reports(comparison, arguments, tables)
    if arguments.fail_above is None:
        return 0
    slower = comparison.slower_by(arguments.fail_above)
    for label in slower:
        print_note(f"{label} is slower than --fail-above allows")
    return _SLOWER if slower else 0


COMMAND = Command(
    name="compare",
    doc="Show what differs between models, profiles, devices or settings.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
