"""`coremlscope compare`: what differs between models, saved profiles, devices and settings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coremlscope.base.errors import INTERRUPTED_EXIT, CoremlscopeError, UsageError
from coremlscope.cli.command import (
    Command,
    add_compute_units,
    add_reports,
    add_shape,
    read_path,
    shows_tables,
)
from coremlscope.cli.connected import add_on_device, is_on_device, measure_connected
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.progress import Shown, progress_line
from coremlscope.cli.providers import add_provider, check_no_provider, is_onnx, with_providers
from coremlscope.cli.repetitions import (
    add_engine,
    add_engine_options,
    add_function,
    add_limits,
    add_repetitions,
    measurement_options,
)
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import has_color, print_error, print_note, terminal_width
from coremlscope.reports.renderers import COMPARISON_RENDERERS

if TYPE_CHECKING:
    from coremlscope.describe.comparison.profiles import Comparison
    from coremlscope.results.profile import Profile

#: The exit code if `--fail-above` finds a subject that is slower, or cannot be compared.
_SLOWER = 9
_EPILOG = """\
Models are measured, planned and estimated in one table, which is shown while it fills; then each is
compared with the first. Off a Mac there is one measurement, on this machine, and predictions are
also timed in interleaved rounds, so that a slowdown of the machine affects all of them; the settings
of --compute-units matter to plans and estimates for --device. On a Mac, Core ML measures the models
one after the other under each setting, unless --engine names another engine; with --on-device they
are measured on a connected iPhone or iPad, which must be in developer mode, by coremltools' remote
device or by an app of our own, which is built and started for it. None of these is yet confirmed on
a device. A single model with several devices or settings of them is planned and estimated for each,
and not measured.

Saved profiles (`coremlscope profile MODEL -o p.json`) are not measured again; a file of several
profiles counts as several sources. Times of different machines are shown but not compared.
Operations are matched by name, type and shape, in the order of the program. `slower` and `faster`
mean that the 95 % interval of the ratio of the medians excludes 1, `no change` that the ratio is
within 5 %, `unclear` that it may be either. Plans and estimates are compared separately; they are
not measured. Result files of a phone make one table, with its power modes as columns.

A model that fails does not stop the others: the exit code is that of the first failure. Ctrl-C stops
the command, keeps the completed results, and sets exit code 130.

Two recordings of `coremlscope trace`, or two exports of Instruments, are shown before and after:
counts, means and totals of events, and the mistakes that are gone.

examples:
  coremlscope compare before.mlpackage after.mlpackage
  coremlscope compare *.mlpackage --compute-units every --iterations 10
  coremlscope compare *.mlpackage --compute-units every --device m1,m4 -o models.md
  coremlscope compare 'conv(kernel=3,5,7)' --device m1
  coremlscope compare main.json branch.json -o compare.md --fail-above 5%
  coremlscope compare model.mlpackage --device iphone-13,iphone-15-pro
  coremlscope compare slow.json fast.json -o fixed.md
  coremlscope compare a.mlpackage b.mlpackage --on-device any --team A1B2C3D4E5
"""

Changed = Callable[[tuple["Profile", ...]], None]


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
        " the interval, or if no time could be compared",
    )
    add_devices(
        parser,
        "also plan and estimate for these chips or devices; for a single model, compare them with each other",
    )
    add_compute_units(parser, "on a Mac what Core ML is measured under, and for plans and estimates")
    add_repetitions(parser)
    add_limits(parser, keeps=True)
    add_function(parser, "to time")
    add_shape(parser)
    add_provider(parser)
    add_engine(parser)
    add_engine_options(parser)
    add_on_device(parser)
    add_reports(
        parser,
        COMPARISON_RENDERERS,
        json="the comparison and the profiles",
    )


def _compare_recordings(arguments: argparse.Namespace) -> int:
    """Shows two recordings of a program next to each other."""
    from coremlscope.describe.comparison.recordings import compare_recordings
    from coremlscope.dropin.tracing.saved import read_recording

    before, after = (read_recording([path]) for path in arguments.sources)
    first, second = (Path(path).name for path in arguments.sources)
    changes = compare_recordings(before, after, (first, second))
    write_reports(changes, arguments)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.dropin.tracing.saved import is_recording

    if len(arguments.sources) == 2 and all(map(is_recording, arguments.sources)):
        return _compare_recordings(arguments)
    from coremlscope import api
    from coremlscope.results.profile import exit_code_of

    if not any(map(is_onnx, arguments.sources)):
        check_no_provider(arguments)
    with _live_table(not arguments.quiet) as (changed, progress):
        made: tuple[Profile, ...] = ()
        if is_on_device(arguments):
            made = measure_connected(arguments, arguments.sources, arguments.compute_units, progress, changed)
        comparison = api.compare(
            *(made or arguments.sources),
            function=arguments.function,
            shapes=dict(arguments.shape),
            seed=arguments.seed,
            random_weights=arguments.random_weights,
            progress=progress,
            changed=changed,
            **measurement_options(arguments),
        )
    exit_code = exit_code_of(made) or comparison.exit_code
    if any(one.work is not None for one in comparison.differences):
        from coremlscope.studies.migration import add_agreements

        comparison = add_agreements(comparison, shapes=dict(arguments.shape), seed=arguments.seed)
    if len(comparison.profiles) == len(arguments.sources):
        of_onnx = tuple(
            with_providers(profile, path, arguments, arguments.device)
            for profile, path in zip(comparison.profiles, arguments.sources, strict=True)
        )
        comparison = msgspec.structs.replace(comparison, profiles=of_onnx)
    write_reports(comparison, arguments)
    if exit_code == INTERRUPTED_EXIT:
        print_note("interrupted")
    elif exit_code and not shows_tables(arguments):
        found = (one for profile in comparison.profiles for one in profile.all_findings)
        failed = next(one for one in found if one.exit_code == exit_code)
        print_error(CoremlscopeError(failed.text, failed.hint))
    if arguments.fail_above is None or exit_code:
        return exit_code
    return _gate(comparison, arguments.fail_above)


def _gate(comparison: Comparison, share: float) -> int:
    """Says what is slower by more than a share, or cannot be compared, and returns the exit code.

    Raises:
        UsageError: There are no two to compare.
    """
    if not comparison.differences:
        raise UsageError(
            "--fail-above needs two to compare", "name two models, profiles, devices or settings"
        )
    slower = comparison.slower_by(share)
    for label, ratio in slower.items():
        what = (
            "has no time to compare with the first" if ratio is None else "is slower than --fail-above allows"
        )
        print_note(f"{label} {what}")
    return _SLOWER if slower else 0


@contextmanager
def _live_table(is_wanted: bool) -> Iterator[tuple[Changed, Shown | None]]:
    """The table on a terminal while it is filled; it is removed at the end."""
    known: tuple[Profile, ...] = ()

    def changed(profiles: tuple[Profile, ...]) -> None:
        nonlocal known
        known = profiles

    def show(line: str) -> str:
        from coremlscope.reports.side_by_side import side_by_side_document
        from coremlscope.reports.terminal.writer import write_terminal

        if not known:
            return line
        document = side_by_side_document(known, state=f"{_measured_now(known)}: {line}".removeprefix(": "))
        return write_terminal(document, width=terminal_width(), color=has_color(sys.stderr))

    with progress_line(is_wanted, show) as progress:
        yield changed, progress


def _measured_now(profiles: Sequence[Profile]) -> str:
    """Returns the model that is being measured: the last one that was read."""
    begun = [profile.model.path for profile in profiles if profile.model.container]
    return Path(begun[-1]).name if begun else ""


COMMAND = Command(
    name="compare",
    doc="Show models, profiles, devices and settings side by side, and what differs.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
