"""`coremlscope profile`: times a model and its operations on this machine."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from coremlscope.base.errors import CoremlscopeError
from coremlscope.cli.command import (
    EVERY,
    Command,
    add_inputs,
    add_model,
    add_precision,
    add_reports,
    add_shape,
    at_least,
    one_of,
    shows_tables,
)
from coremlscope.cli.connected import add_on_device, check_power_mode, is_on_device, measure_connected
from coremlscope.cli.inputs import read_inputs
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.progress import progress_line
from coremlscope.cli.repetitions import (
    add_engine,
    add_engine_options,
    add_function,
    add_limits,
    add_repetitions,
    measurement_options,
)
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import print_error, print_note
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.devices.unit import SETTINGS
from coremlscope.reports.renderers import RENDERERS
from coremlscope.runtime.engines import ENGINES

if TYPE_CHECKING:
    from coremlscope.measure.contract import Progress
    from coremlscope.model.ir import Model
    from coremlscope.results.profile import Profile

_EPILOG = """\
Compilation (binding, lowering and building the session, cold each time), loading what was
compiled, and prediction are each repeated; warm-ups are dropped. Compilations and loads have
2 s each, and predictions end once their median is known within 1 %; a number that is given is
kept exactly. Times of operations come from the engine's own profiler. The engine runs in a
process of its own: what was measured before it crashed, reached a limit or was interrupted by
Ctrl-C is kept, and reports call it partial. If the model cannot be run, the reports of -o and
--json still have its structure, its plans and estimates, and the failure.

On a Mac, Core ML itself is measured, through coremltools, under --compute-units; that path is not
yet confirmed on a device. Elsewhere, and with --engine onnxruntime, nothing is a measurement of
Core ML or of a Neural Engine. With --device the profile also contains plans and estimates, under
every setting of compute units.

With --on-device, Core ML is measured on a connected iPhone or iPad by an app of our own, which is
built and started for it.

examples:
  coremlscope profile model.mlpackage
  coremlscope profile model.mlpackage --iterations 200 --threads 1 -o report.json -o report.md
  coremlscope profile model.mlpackage --input image=photo.jpg --json - --quiet
  coremlscope profile model.mlpackage --input image=photo.jpg --precision fp16
  coremlscope profile decoder.mlpackage --tokens 100 --device iphone-15-pro
  coremlscope profile unknown.mlmodel --timeout 120 --memory 4GB
  coremlscope profile model.mlpackage --on-device any --team A1B2C3D4E5 --compute-units every
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_repetitions(parser)
    add_limits(parser, keeps=True)
    parser.add_argument(
        "--compute-units",
        metavar="UNITS",
        type=one_of("compute units", *SETTINGS, EVERY),
        default="all",
        help=f"{', '.join(SETTINGS)}, or every: what Core ML is measured under, and the first setting of"
        " plans and estimates; other engines do not depend on it (default: all)",
    )
    add_engine(parser)
    parser.add_argument(
        "--trace",
        action="store_true",
        help="on a Mac with Xcode, also record with Instruments when each compute unit is busy",
    )
    parser.add_argument(
        "--other-predictions",
        action="store_true",
        help="on a Mac with pyobjc, also time predictions into output backings and asynchronous ones",
    )
    parser.add_argument(
        "--tokens",
        metavar="N",
        type=at_least(1),
        help="for a decoder with a cache: also time N predictions of one token for each of several contexts,"
        " and predictions of many tokens",
    )
    add_precision(parser)
    add_function(parser, "to time")
    add_inputs(parser)
    add_shape(parser)
    add_engine_options(parser)
    add_devices(
        parser,
        "also plan and estimate for these chips or devices, without measurements: m1, iphone-15-pro, or"
        " all-current for the newest ones (default: phones and Macs of this year, of two and of five years"
        " ago)",
    )
    add_on_device(parser, "")
    add_reports(parser, RENDERERS, json="the profile")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.measure.embedded.process import started_early

    engine = arguments.engine or ("coreml" if sys.platform == "darwin" else ENGINES[0][0])
    is_embedded = not is_on_device(arguments) and engine not in ("coreml", "coreai")
    with started_early(is_embedded), progress_line(not arguments.quiet) as progress:
        from coremlscope import api
        from coremlscope.reports.json import render_values

        model = api.read(arguments.model)
        profile = (_on_device if is_on_device(arguments) else _here)(arguments, model, progress)
    write_reports(profile, arguments, as_json=lambda: render_values(profile.to_json(), keeps_folders=True))
    failed = next((finding for finding in profile.all_findings if finding.exit_code), None)
    if failed is not None and not profile.measurements and not shows_tables(arguments):
        print_error(CoremlscopeError(failed.text, failed.hint))
    return failed.exit_code if failed is not None else 0


def _here(arguments: argparse.Namespace, model: Model, progress: Progress | None) -> Profile:
    from coremlscope import api
    from coremlscope.model.subject import Subject
    from coremlscope.runtime.execution.wiring import interface_of

    shapes, inputs = dict(arguments.shape), {}
    if arguments.input:
        _, description = interface_of(model, arguments.function)
        inputs = read_inputs(description, arguments.input, shapes, arguments.resize)
    check_power_mode(arguments)
    is_both = arguments.power_mode == "both"
    arguments.device = arguments.device or DEFAULT_DEVICES
    measure = partial(api.profile_power_modes, announce=_announce) if is_both else api.profile
    return measure(
        Subject(model, arguments.function, shapes, inputs, arguments.seed, arguments.random_weights),
        precision=arguments.precision,
        trace=arguments.trace,
        other_predictions=arguments.other_predictions,
        tokens=arguments.tokens,
        progress=progress,
        keeps_failed=bool(arguments.output or arguments.json),
        **measurement_options(arguments),
    )


def _announce(mode: str) -> None:
    print_note(f"measured in power mode {mode}: switch it now, in System Settings > Battery; waiting")


def _on_device(arguments: argparse.Namespace, model: Model, progress: Progress | None) -> Profile:
    units = arguments.compute_units
    settings = tuple(SETTINGS) if units == EVERY else (units,)
    (profile,) = measure_connected(arguments, [model], settings, progress)
    return profile


COMMAND = Command(
    name="profile",
    doc="Time a model on this machine and show where the time goes.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
