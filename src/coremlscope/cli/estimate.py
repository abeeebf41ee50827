"""`coremlscope estimate`: estimates the time of predictions on Apple devices."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from coremlscope.base.errors import UsageError
from coremlscope.base.site import page
from coremlscope.cli.command import Command, add_compute_units, add_reports, add_shape, read_path
from coremlscope.cli.lookup import add_devices, choose_devices
from coremlscope.cli.providers import add_provider, check_no_provider, is_onnx, shapes_of, with_providers
from coremlscope.cli.repetitions import add_function
from coremlscope.cli.reports import write_reports
from coremlscope.reports.renderers import PROFILES_RENDERERS, RENDERERS, find_renderer

_EPILOG = f"""\
Estimates come from a model of the chips that was fitted to published latencies; their errors
are on {page("accuracy")}. The interval contains 80 % of the
cases. `*` marks chips that fewer than three publications measured, `†` those that your own
measurements refine (`coremlscope measurements`).

A report (-o) contains the profile: the model, its operations, the estimates and the plans on
which they are based. For several models it contains a list of profiles, which .trace.json does
not support.
--json writes a short form: `estimates`, one for every model, device and setting asked for, and
`answers`, one for every setting.

A layer stands in the place of a model: KIND(OPTION=VALUE, …). An option has one value, several
(dilations=1,2,4) or those of a range (kernel=1..31..2), and every combination is one model.

examples:
  coremlscope estimate model.mlpackage --device iphone-13
  coremlscope estimate model.mlpackage --device m1 --compute-units cpu_and_ne --explain
  coremlscope estimate a.mlpackage b.mlpackage --device iphone-12,m1,a17-pro -o estimates.html
  coremlscope estimate 'conv(kernel=3,5,7, shape=1x64x112x112)' --device m1
  coremlscope estimate model.mlpackage --device every --json - | jq '.estimates[0].latency_ms'
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        metavar="MODEL",
        type=read_path,
        nargs="+",
        help=".mlpackage, .mlmodelc, .mlmodel, .aimodel, .onnx or .zip; or App.ipa#NAME; no weights needed",
    )
    add_devices(
        parser,
        "chips or devices: m1, a17-pro, iphone-15-pro; every for all chips; `coremlscope devices` lists them"
        " (default: phones and Macs of this year, of two and of five years ago)",
    )
    add_compute_units(parser)
    add_function(parser, "to estimate")
    add_shape(parser)
    add_provider(parser)
    parser.add_argument(
        "--explain",
        action="store_true",
        help="show what each estimate is made of, and the published latencies that are nearest to it",
    )
    parser.add_argument(
        "--no-calibration",
        action="store_true",
        help="use published latencies alone, not your own measurements (see `coremlscope measurements`)",
    )
    add_reports(
        parser,
        RENDERERS,
        json="the short form of the estimates",
    )


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.api.models import list_layers
    from coremlscope.reports.answer_json import render_answers_json
    from coremlscope.reports.estimates import estimates_document, estimates_to_json

    devices = choose_devices(arguments)
    models = [one for path in arguments.models for one in list_layers(path)]
    is_list = len(models) > 1
    if is_list:
        check_formats(arguments.output)
    if not any(map(is_onnx, models)):
        check_no_provider(arguments)
    profiles = [
        api.estimate(
            path,
            devices,
            os=arguments.os,
            compute_units=arguments.compute_units,
            function=arguments.function,
            shapes=shapes_of(path, arguments),
            explain=arguments.explain,
            calibrated=not arguments.no_calibration,
        )
        for path in models
    ]
    profiles = [
        with_providers(profile, path, arguments, devices)
        for profile, path in zip(profiles, models, strict=True)
    ]
    write_reports(
        tuple(profiles) if is_list else profiles[0],
        arguments,
        estimates_document(profiles, explained=arguments.explain),
        lambda: render_answers_json(
            profiles, schema="coremlscope.estimates/1", estimates=estimates_to_json(profiles)
        ),
    )
    return 0


def check_formats(reports: Sequence[Path]) -> None:
    """Checks that reports have formats that can show several models.

    Raises:
        UsageError: A format cannot.
    """
    known = [renderer.suffix for renderer in PROFILES_RENDERERS]
    for path in reports:
        if find_renderer(path).suffix not in known:
            raise UsageError(f"{path} can show only one model", f"use one of {', '.join(known)}")


COMMAND = Command(
    name="estimate",
    doc="Estimate how long predictions take on Apple devices, from the file.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
