"""`coremlscope compare`: what differs between models and saved profiles."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.cli.command import Command, add_reports, add_shape
from coremlscope.cli.progress import progress_bars
from coremlscope.cli.repetitions import add_engine_options, add_repetitions
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import print_note

__all__ = ["COMMAND"]

#: The exit code where `--fail-above` finds something.
_SLOWER = 9
_EPILOG = """\
Models are profiled here, and their predictions timed in turns, so that whatever slows the
machine down slows all of them. Saved profiles (`coremlscope profile MODEL -o p.json`) are taken
as they are; times of different machines are shown and not compared. Operations are matched by
name, type and shape, in the order of the program. `no change` means that the 95 % interval of
the ratio of the medians holds 1.

examples:
  coremlscope compare before.mlpackage after.mlpackage
  coremlscope compare main.json branch.json -o compare.md --fail-above 5%
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
    add_repetitions(parser)
    parser.add_argument("--function", metavar="NAME", help="the function to time (default: the model's own)")
    add_shape(parser)
    add_engine_options(parser)
    add_reports(parser, ".json, .md or .txt", "COMPARISON_RENDERERS")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.render import COMPARISON_RENDERERS, render_comparison

    with progress_bars(not arguments.quiet) as progress:
        comparison = api.compare(
            *arguments.sources,
            threads=arguments.threads,
            progress=progress,
            function=arguments.function or "",
            iterations=arguments.iterations,
            compile_iterations=arguments.compile_iterations,
            load_iterations=arguments.load_iterations,
            warmups=arguments.warmups,
            seed=arguments.seed,
            shapes=dict(arguments.shape),
            random_weights=arguments.random_weights,
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
    "compare", "Show what differs between models or profiles, and what is noise.", _EPILOG, _configure, _run
)
