"""`coremlscope matrix`: models × settings of compute units."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from coremlscope.cli.command import EVERY, Command, add_reports, at_least, one_of
from coremlscope.cli.lookup import device_names
from coremlscope.cli.progress import phase_words
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import print_note
from coremlscope.devices.unit import SETTINGS, ComputeUnits

if TYPE_CHECKING:
    from coremlscope.batch import Matrix

__all__ = ["COMMAND"]

_INTERRUPTED = 130
_REDRAW_S = 0.1
_EPILOG = """\
Off a Mac one column is measured, that of this host; with --device the settings are planned and
estimated, and headed so. On a Mac all settings are measured in Core ML, through coremltools;
with --on-device they are measured on an iPhone or iPad that is connected to it, which must be in
developer mode. Neither path is yet confirmed on a device. A model that fails does not stop the
others: the exit code is that of the first failure. Ctrl-C keeps what is done.

examples:
  coremlscope matrix a.mlpackage b.mlpackage --device iphone-15-pro
  coremlscope matrix *.mlpackage --compute-units every --iterations 10 --device m1,m4 -o matrix.md
  coremlscope matrix a.mlpackage --on-device any --team A1B2C3D4E5
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", metavar="MODEL", type=Path, nargs="+", help="the models")
    parser.add_argument(
        "--compute-units",
        metavar="UNITS",
        type=one_of(*SETTINGS, EVERY),
        default=EVERY,
        help=f"what the app allows: {', '.join(SETTINGS)}, or every (default: every)",
    )
    parser.add_argument(
        "--iterations", metavar="N", type=at_least(1), default=10, help="timed predictions (default: 10)"
    )
    parser.add_argument(
        "--device",
        metavar="NAME,…",
        type=device_names,
        default=(),
        help="chips or devices to plan and estimate for: m1, iphone-15-pro; nothing of it is measured",
    )
    parser.add_argument(
        "--os", metavar="VERSION", help="iOS or macOS on all of them: 18, 14.5 (default: the newest of each)"
    )
    parser.add_argument(
        "--on-device",
        metavar="NAME",
        help="on a Mac: measure on a connected iPhone or iPad, by its name or identifier, or any",
    )
    parser.add_argument(
        "--team",
        metavar="ID",
        default="",
        help="the development team that signs what runs on that device: A1B2C3D4E5",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=at_least(1),
        help="off a Mac: threads of an operation (default: one a physical core)",
    )
    parser.add_argument(
        "--seed", metavar="N", type=at_least(0), default=0, help="seed of made-up inputs (default: 0)"
    )
    add_reports(parser, ".json, .md or .txt", "MATRIX_RENDERERS")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.render import MATRIX_RENDERERS, render_matrix

    wanted: str = arguments.compute_units
    with _live_table(not arguments.quiet) as (changed, progress):
        matrix = api.matrix(
            *arguments.models,
            compute_units=[setting for setting in get_args(ComputeUnits) if wanted in (EVERY, setting)],
            iterations=arguments.iterations,
            devices=arguments.device,
            os=arguments.os,
            threads=arguments.threads,
            seed=arguments.seed,
            on_device=arguments.on_device,
            team=arguments.team,
            progress=progress,
            changed=changed,
        )

    def tables(width: int, color: bool) -> str:
        return render_matrix(matrix, width=width, color=color)

    write_reports(matrix, arguments, MATRIX_RENDERERS, tables)
    if matrix.interrupted:
        print_note("interrupted")
        return _INTERRUPTED
    return matrix.exit_code


Changed = Callable[["Matrix"], None]
Told = Callable[[str, int, int], None]


@contextmanager
def _live_table(is_wanted: bool) -> Iterator[tuple[Changed, Told | None]]:
    """The table on standard error while it is filled, where that is a terminal; it is gone in the end."""
    if not is_wanted or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None, None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from coremlscope.render import render_matrix

    console = Console(stderr=True)
    # No thread redraws it: it would disturb what is being measured. It is drawn between repetitions.
    with Live(console=console, transient=True, auto_refresh=False, vertical_overflow="crop") as live:
        known: Matrix | None = None
        drawn = 0.0

        def draw(state: str) -> None:
            nonlocal drawn
            drawn = time.monotonic()
            shown = state
            if known is not None:
                color = console.color_system is not None
                shown = render_matrix(known, width=console.width, color=color, state=state)
            live.update(Text.from_ansi(shown), refresh=True)

        def changed(matrix: Matrix) -> None:
            nonlocal known
            known = matrix
            draw("…")

        def progress(phase: str, done: int, total: int) -> None:
            if done == 0 or time.monotonic() - drawn > _REDRAW_S:
                place = known and next((r.model for r in known.rows if not r.timings and not r.problems), "")
                draw(f"{place}: {phase_words(phase)} {done}/{total}" if place else f"{phase_words(phase)}")

        yield changed, progress


COMMAND = Command(
    "matrix", "Time models under every setting of compute units, as far as can be.", _EPILOG, _configure, _run
)
