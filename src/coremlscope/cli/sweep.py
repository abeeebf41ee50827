"""`coremlscope sweep`: many models, settings and devices, with results that are kept."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.base.errors import UsageError
from coremlscope.base.site import page
from coremlscope.cli.command import (
    Command,
    add_compute_units,
    add_json,
    add_quiet,
    add_shape,
    at_least,
    write_result,
)
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.providers import add_provider, session_of
from coremlscope.cli.repetitions import add_iterations, add_limits, add_random_weights, add_seed
from coremlscope.cli.terminal import draw, draws, print_note

if TYPE_CHECKING:
    from coremlscope.results.sweep import SweepProgress

_FILES = (".html", ".csv", ".json", ".parquet")
_INTERRUPTED = 130
_REDRAW_S, _NOTE_S = 0.2, 60.0
_EPILOG = f"""\
A result is the estimate of a model for a device and a setting, or its measurement on this machine.
Each has an address, a hash of the file's content, the options and the versions: a second run
computes only what has changed. Ctrl-C, or the end of any process, loses only what was not finished; the same
command continues. Failures are listed apart, and --retry makes them again.

Measurements run one at a time, on Linux on half of the cores, while plans and estimates use the
rest. The folder gets one Parquet file each for estimates, plans and times, and a page, results.html;
{page("guides/sweep")} describes them,
and zoo.toml, which lists models with options of their own.

examples:
  coremlscope sweep models/ --device m1,iphone-15-pro --compute-units every
  coremlscope sweep 'models/**/*.mlpackage' --measure --variant palettize-4,int8
  coremlscope sweep zoo.toml --label commit=4f2a91c
"""


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _variants(text: str) -> tuple[str, ...]:
    from coremlscope.planning.rewrites.transforms import parse_transform

    names = _names(text)
    for name in names:
        parse_transform(name)
    return names


def _label(text: str) -> tuple[str, str | float]:
    """Parses `NAME=TEXT` or `NAME=NUMBER`."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a label\nwrite it as NAME=VALUE")
    try:
        return name, float(value)
    except ValueError:
        return name, value


def _folder(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() in _FILES and not path.is_dir():
        raise argparse.ArgumentTypeError(
            f"{text} is the name of a file, and results are a folder\n"
            "choose a folder; it gets estimates.parquet, plans.parquet, times.parquet and results.html"
        )
    return path


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        nargs="+",
        help="models, folders, archives, patterns, saved profiles to import, or zoo.toml",
    )
    add_devices(parser, "chips or devices to plan and estimate for: m1, iphone-15-pro")
    add_compute_units(parser)
    parser.add_argument("--measure", action="store_true", help="time each model on this machine, too")
    add_iterations(parser, 10)
    parser.add_argument(
        "--threads", metavar="N", type=at_least(1), help="threads per operation (default: one per core)"
    )
    add_limits(parser, keeps=True)
    add_seed(parser, "synthetic inputs and weights")
    add_random_weights(parser)
    parser.add_argument(
        "--function",
        metavar="NAME,…",
        type=_names,
        default=("",),
        help="functions, or every (default: the default function of each model)",
    )
    add_shape(parser)
    parser.add_argument(
        "--variant",
        metavar="NAME,…",
        type=_variants,
        default=(),
        help="also these variants by coremltools: fp16, int8, palettize-4, … (see `what-if --help`)",
    )
    parser.add_argument(
        "--label",
        metavar="NAME=VALUE",
        type=_label,
        action="append",
        default=[],
        help="attach a text or a number to all results (repeatable)",
    )
    add_provider(parser, "also sessions with it, as the variant onnxruntime-FORMAT")
    _add_places(parser)
    parser.add_argument("--retry", action="store_true", help="make results again that failed before")
    add_json(parser, "the summary")
    add_quiet(parser)


def _add_places(parser: argparse.ArgumentParser) -> None:
    """Adds where the work is done, and where the results are kept."""
    parser.add_argument(
        *("-o", "--output"),
        dest="results",
        metavar="FOLDER",
        type=_folder,
        default=Path("sweep-results"),
        help="keep the results in this folder (default: sweep-results)",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=at_least(1),
        help="processes that plan and estimate (default: one per core)",
    )
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="run on a Ray cluster: auto for that of this machine, or an address"
    )
    parser.add_argument(
        "--on",
        metavar="NAME,…",
        type=_names,
        default=(),
        help="with --ray: measure on nodes that have these resources: mac, m2, quiet",
    )


def _run(arguments: argparse.Namespace) -> int:
    import msgspec

    from coremlscope.devices.targets import Targets
    from coremlscope.reports.sweep import sweep_document
    from coremlscope.results.encoding import plain
    from coremlscope.studies.sweep.jobs import SESSION, Measuring
    from coremlscope.studies.sweep.run import run_sweep

    if arguments.on and arguments.ray is None:
        raise UsageError("only nodes of a Ray cluster have resources", "add --ray auto")
    session = [f"{SESSION}-{name}"] if (name := session_of(arguments)) else []
    measuring = Measuring(
        iterations=arguments.iterations,
        threads=arguments.threads,
        seed=arguments.seed,
        random_weights=arguments.random_weights,
        timeout_s=arguments.timeout,
        memory_bytes=arguments.memory,
    )
    workers = arguments.workers
    if arguments.ray:
        from coremlscope.studies.sweep.ray_cluster import RayRunner

        workers = RayRunner(arguments.ray, arguments.on)
    with _shown_progress(not arguments.quiet) as progress:
        summary = run_sweep(
            *arguments.sources,
            folder=arguments.results,
            devices=Targets(arguments.device, arguments.os, arguments.compute_units),
            measuring=measuring if arguments.measure else None,
            functions=arguments.function,
            shapes=[dict(arguments.shape)] if arguments.shape else (),
            variants=("", *arguments.variant, *session),
            labels=dict(arguments.label),
            workers=workers,
            retry=arguments.retry,
            progress=progress,
        )
    write_result(
        arguments,
        lambda: msgspec.json.format(msgspec.json.encode(plain(summary))).decode(),
        sweep_document(summary),
    )
    if summary.interrupted:
        return _INTERRUPTED
    return next((one.exit_code for one in summary.failures), 0)


def _words(state: SweepProgress) -> str:
    """Returns how far a sweep is: `120 of 4000 results, 3 failed, 12 min left`."""
    of = "" if state.total is None else f" of {state.total}"
    failed = f", {state.failed} failed" if state.failed else ""
    left = "" if state.left_s is None else f", {_left(state.left_s)} left"
    return f"{state.done}{of} results{failed}{left}"


def _left(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def _shown_progress(is_wanted: bool) -> Iterator[Callable[[SweepProgress], None] | None]:
    """Shows progress: a line that is redrawn on a terminal, elsewhere a note each minute."""
    if not is_wanted:
        yield None
        return
    told, show = time.monotonic(), draw if draws() else print_note
    wait_s = _REDRAW_S if draws() else _NOTE_S

    def tell(state: SweepProgress) -> None:
        nonlocal told
        if (not state.done and draws()) or time.monotonic() - told > wait_s:
            told = time.monotonic()
            show(_words(state))

    try:
        yield tell
    finally:
        draw("")


COMMAND = Command(
    name="sweep",
    doc="Plan, estimate and time many models under many settings, and keep the results.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
