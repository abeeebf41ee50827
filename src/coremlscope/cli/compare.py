"""`coremlscope compare`: what differs between models, saved profiles, devices and settings."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.cli.command import EVERY, Command, add_reports, add_shape, one_of
from coremlscope.cli.lookup import device_names
from coremlscope.cli.progress import progress_bars
from coremlscope.cli.repetitions import add_engine_options, add_repetitions, measure_options
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import print_note
from coremlscope.devices.unit import SETTINGS

__all__ = ["COMMAND"]

#: The exit code where `--fail-above` finds something.
_SLOWER = 9
_EPILOG = """\
Models are profiled here, and their predictions timed in turns, so that whatever slows the
machine down slows all of them. Saved profiles (`coremlscope profile MODEL -o p.json`) are taken
as they are; times of different machines are shown and not compared. Operations are matched by
name, type and shape, in the order of the program. `no change` means that the 95 % interval of
the ratio of the medians holds 1. Plans and estimates are compared apart: nothing of them is
measured.

examples:
  coremlscope compare before.mlpackage after.mlpackage
  coremlscope compare main.json branch.json -o compare.md --fail-above 5%
  coremlscope compare model.mlpackage --device iphone-13,iphone-15-pro
  coremlscope compare model.mlpackage --device m1 --compute-units all,cpu_and_gpu
"""


def _percent(text: str) -> float:
    """A type of arguments: `5%` or `5`."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage\nwrite it as 5%")
    return share


def _settings(text: str) -> tuple[str, ...]:
    """A type of arguments: settings of compute units, or `every`."""
    parse = one_of(*SETTINGS, EVERY)
    names = [parse(name.strip()) for name in text.split(",")]
    return tuple(SETTINGS) if EVERY in names else tuple(dict.fromkeys(names))


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        type=Path,
        nargs="+",
        help="models, and profiles that were saved as .json; the first is the base",
    )
    parser.add_argument(
        "--fail-above",
        metavar="PERCENT",
        type=_percent,
        help=f"end with exit code {_SLOWER} where predictions are slower by more than this, down to the lower"
        " end of the interval",
    )
    parser.add_argument(
        "--device",
        metavar="NAME,…",
        type=device_names,
        default=(),
        help="compare plans and estimates for these chips or devices as well; of a single source, those of"
        " the others with those of the first",
    )
    parser.add_argument(
        "--os", metavar="VERSION", help="iOS or macOS on all of them: 18, 14.5 (default: the newest of each)"
    )
    parser.add_argument(
        "--compute-units",
        metavar="UNITS,…",
        type=_settings,
        default=("all",),
        help=f"for plans and estimates: {', '.join(SETTINGS)}, several of them, or every (default: all)",
    )
    add_repetitions(parser)
    parser.add_argument("--function", metavar="NAME", help="the function to time (default: the model's own)")
    add_shape(parser)
    add_engine_options(parser)
    add_reports(parser, ".html, .json, .md or .txt", "COMPARISON_RENDERERS")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.render import COMPARISON_RENDERERS, render_comparison

    with progress_bars(not arguments.quiet) as progress:
        comparison = api.compare(
            *arguments.sources,
            threads=arguments.threads,
            progress=progress,
            devices=arguments.device,
            os=arguments.os,
            settings=arguments.compute_units,
            **measure_options(arguments),
        )

    def tables(width: int, color: bool) -> str:
        return render_comparison(comparison, width=width, color=color)

    write_reports(comparison, arguments, COMPARISON_RENDERERS, tables)
    if arguments.fail_above is None:
        return 0
    slower = comparison.slower_by(arguments.fail_above)
    for label in slower:
        print_note(f"{label} predicts more slowly than --fail-above allows")
    return _SLOWER if slower else 0


COMMAND = Command(
    "compare", "Show what differs between models, profiles, devices or settings.", _EPILOG, _configure, _run
)
