"""`coremlscope matrix`: models × settings of compute units."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.cli.command import Command, add_compute_units, add_reports, at_least, read_path
from coremlscope.cli.connected import add_on_device, chosen_power_mode, is_on_device
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.progress import phase_words
from coremlscope.cli.repetitions import add_iterations, add_limits, add_seed, limit_options
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import print_note
from coremlscope.findings import Finding

if TYPE_CHECKING:
    from coremlscope.results.profile import Profile

__all__ = ["COMMAND"]

_INTERRUPTED = 130
_REDRAW_S = 0.1
_EPILOG = """\
Off a Mac there is one measurement, on this machine; with --device the settings are planned and
estimated for these devices. On a Mac all settings are measured in Core ML, through coremltools;
with --on-device they are measured on a connected iPhone or iPad, which must be in developer mode,
by coremltools' remote device or by an app of our own, which is built and started for it. None of
these is yet confirmed on a device. A model that fails does not stop the
others: the exit code is that of the first failure. Ctrl-C stops the command, keeps the completed
results, and sets exit code 130. The JSON contains a list of profiles, one per model.

examples:
  coremlscope matrix a.mlpackage b.mlpackage --device iphone-15-pro
  coremlscope matrix *.mlpackage --compute-units every --iterations 10 --device m1,m4 -o matrix.md
  coremlscope matrix a.mlpackage --on-device any --team A1B2C3D4E5
"""


Changed = Callable[[tuple["Profile", ...]], None]
Shown = Callable[[str, int, int], None]


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", metavar="MODEL", type=read_path, nargs="+", help="the models")
    add_compute_units(parser, default="every")
    add_iterations(parser, 10)
    add_devices(parser, "chips or devices to plan and estimate for, without measurements: m1, iphone-15-pro")
    add_on_device(parser)
    parser.add_argument(
        "--threads",
        metavar="N",
        type=at_least(1),
        help="off a Mac: threads per operation (default: one per physical core)",
    )
    add_seed(parser, "synthetic inputs")
    add_limits(parser, keeps=True)
    add_reports(parser, ".html, .json, .md, .csv or .txt", "MATRIX_RENDERERS", json="the profiles")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.render.terminal.matrix import render_matrix

    with _live_table(not arguments.quiet) as (changed, progress):
        measure = _on_device if is_on_device(arguments) else _here
        profiles = measure(arguments, progress, changed)

    def tables(width: int, color: bool) -> str:
        return render_matrix(profiles, width=width, color=color)

    write_reports(profiles, arguments, tables)
    return _exit_code([finding for profile in profiles for finding in profile.all_findings])


def _here(arguments: argparse.Namespace, progress: Shown | None, changed: Changed) -> tuple[Profile, ...]:
    from coremlscope import api

    return api.matrix(
        *arguments.models,
        compute_units=arguments.compute_units,
        devices=arguments.device,
        os=arguments.os,
        iterations=arguments.iterations,
        threads=arguments.threads,
        seed=arguments.seed,
        progress=progress,
        changed=changed,
        **limit_options(arguments),
    )


def _on_device(
    arguments: argparse.Namespace, progress: Shown | None, changed: Changed
) -> tuple[Profile, ...]:
    from coremlscope.api.connected_devices import measure_on_device
    from coremlscope.runner.request import RunnerSettings

    return measure_on_device(
        *arguments.models,
        on_device=arguments.on_device or "",
        team=arguments.team,
        through=arguments.through,
        settings=RunnerSettings(
            compute_units=arguments.compute_units,
            iterations=arguments.iterations,
            seed=arguments.seed,
            power_mode=chosen_power_mode(arguments),
        ),
        devices=arguments.device,
        os=arguments.os,
        progress=progress,
        changed=changed,
    )


def _exit_code(findings: Sequence[Finding]) -> int:
    """Returns 130 after Ctrl-C, or else the exit code of the first failure."""
    from coremlscope.matrices import INTERRUPTED

    if any(finding.id == INTERRUPTED for finding in findings):
        print_note("interrupted")
        return _INTERRUPTED
    return next((finding.exit_code for finding in findings if finding.severity == "error"), 0)


@contextmanager
def _live_table(is_wanted: bool) -> Iterator[tuple[Changed, Shown | None]]:
    """The table on standard error while it is filled, if that is a terminal; it is removed at the end."""
    if not is_wanted or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None, None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from coremlscope.render.terminal.matrix import render_matrix

    console = Console(stderr=True)
    # It is redrawn between repetitions, not by a thread, which would disturb the measurement.
    with Live(console=console, transient=True, auto_refresh=False, vertical_overflow="crop") as live:
        known: tuple[Profile, ...] = ()
        drawn = 0.0

        def draw(state: str) -> None:
            nonlocal drawn
            drawn = time.monotonic()
            shown = state
            if known:
                color = console.color_system is not None
                shown = render_matrix(known, width=console.width, color=color, state=state)
            live.update(Text.from_ansi(shown), refresh=True)

        def changed(profiles: tuple[Profile, ...]) -> None:
            nonlocal known
            known = profiles
            draw("…")

        def progress(phase: str, done: int, total: int) -> None:
            if done == 0 or time.monotonic() - drawn > _REDRAW_S:
                name = _measured_now(known)
                draw(f"{name}: {phase_words(phase)} {done}/{total}" if name else phase_words(phase))

        yield changed, progress


def _measured_now(profiles: Sequence[Profile]) -> str:
    """Returns the model that is being measured: the last one that was read."""
    begun = [profile.model.path for profile in profiles if profile.model.container]
    return Path(begun[-1]).name if begun else ""


COMMAND = Command(
    name="matrix",
    doc="Time, plan and estimate several models under settings of compute units.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
