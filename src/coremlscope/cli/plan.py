"""`coremlscope plan`: plans on which compute unit Core ML would run each operation, and why."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coremlscope.base.errors import UsageError
from coremlscope.cli.command import Command, add_compute_units, add_model, add_reports, add_shape
from coremlscope.cli.lookup import add_devices, choose_devices, require_devices
from coremlscope.cli.progress import progress_line
from coremlscope.cli.providers import add_provider, check_no_provider, is_onnx, shapes_of, with_providers
from coremlscope.cli.repetitions import add_limits
from coremlscope.cli.reports import add_share, share_evidence, write_reports
from coremlscope.cli.terminal import has_color, print_result, terminal_width
from coremlscope.reports.renderers import EXPLANATION_RENDERERS, RENDERERS, list_formats

if TYPE_CHECKING:
    from coremlscope.results.profile import Profile

_EPILOG = f"""\
On a Mac, without --device, the plan is Core ML's own; this is not yet confirmed on a device.
All figures are planned by Core ML's own cost model, which only ranks the units; they do not
predict times.

--explain OP explains why an operation runs where it does; its reports are
{list_formats(EXPLANATION_RENDERERS)}.

A report (-o) contains the profile: the model, its operations and the plans. --json writes a
short form, `coremlscope.plan/1`: a plan with its operations, and where each goes under each
setting; for several devices such objects are under `plans`. `answers` has the answer for each
device and setting. With Core ML's own plan, a report also contains ours, and the tables and the
short form show Core ML's.

A layer stands in the place of a model; see `coremlscope estimate --help`.

examples:
  coremlscope plan model.mlpackage --device m1
  coremlscope plan model.mlpackage --device m1,iphone-15-pro -o plans.html
  coremlscope plan model.mlpackage --device iphone-15-pro --os 18 --compute-units every
  coremlscope plan model.mlpackage --device m4 --explain linear_7
  coremlscope plan 'conv(dilations=1,2,4, kernel=3)' --device m1
  coremlscope plan model.mlpackage --device m4 --json - | jq '.ops[0]'
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_devices(
        parser,
        "chips or devices: m1, a17-pro, iphone-15-pro; every for all chips; `coremlscope devices` lists them"
        " (default: phones and Macs of this year, of two and of five years ago; on a Mac Core ML's own plan"
        " for it)",
    )
    add_compute_units(parser)
    parser.add_argument(
        "--against-rules", action="store_true", help="on a Mac: list where our plan differs from Core ML's"
    )
    parser.add_argument(
        "--explain",
        metavar="OP",
        help="explain operations instead: costs and rates, rules with sources, and the plan if they ran"
        " elsewhere; an id, the name of an operation or of a result, or the beginning of a type",
    )
    parser.add_argument("--ops", action="store_true", help="list every operation, in order")
    add_shape(parser)
    add_limits(parser, "each plan of Core ML itself")
    add_provider(parser)
    add_share(parser)
    add_reports(
        parser,
        RENDERERS,
        json="the short form of the plan",
    )


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.api.models import list_layers
    from coremlscope.cli.estimate import check_formats

    if is_onnx(arguments.model):
        return _plan_onnx(arguments)
    check_no_provider(arguments)
    if arguments.explain is not None:
        return _explain(arguments)
    is_compared = arguments.against_rules or arguments.share is not None
    if is_compared and (arguments.device or sys.platform != "darwin"):
        raise UsageError(
            "--against-rules and --share compare with Core ML's own plan, which only a Mac has",
            "leave --device out, on a Mac; elsewhere `coremlscope import` reads files of a Mac",
        )
    if not arguments.device and sys.platform == "darwin":
        return _ask_core_ml(arguments)
    layers, devices = list_layers(arguments.model), choose_devices(arguments)
    if len(layers) > 1:
        check_formats(arguments.output)
    profiles = [
        api.plan(
            one,
            devices,
            os=arguments.os,
            compute_units=arguments.compute_units,
            shapes=dict(arguments.shape),
        )
        for one in layers
    ]
    _write(profiles, profiles, arguments)
    return 0


def _plan_onnx(arguments: argparse.Namespace) -> int:
    """Plans what ONNX Runtime's Core ML provider takes of an ONNX model."""
    from coremlscope import api
    from coremlscope.reports.json import render_values
    from coremlscope.reports.provider import onnx_document, onnx_to_json

    devices = choose_devices(arguments)
    profile = api.plan(
        arguments.model,
        devices,
        os=arguments.os,
        compute_units=arguments.compute_units,
        shapes=shapes_of(arguments.model, arguments),
    )
    profile = with_providers(profile, arguments.model, arguments, devices)
    write_reports(profile, arguments, onnx_document(profile), lambda: render_values(onnx_to_json(profile)))
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    """Explains operations on one device under one setting."""
    from coremlscope.planning.forecast.explain import explain

    devices, settings = require_devices(arguments), arguments.compute_units
    if len(devices) != 1 or len(settings) != 1:
        raise UsageError(
            "--explain explains one device under one setting at a time",
            "name one of each, for instance --device m4 --compute-units all",
        )
    found = explain(
        arguments.model,
        arguments.explain,
        devices[0],
        os=arguments.os,
        compute_units=settings[0],
        shapes=dict(arguments.shape),
    )
    write_reports(found, arguments)
    return 0


def _ask_core_ml(arguments: argparse.Namespace) -> int:
    """Shows Core ML's own plan for this Mac, and ours beside it where that is asked for."""
    from coremlscope.api.assemble import with_plans
    from coremlscope.api.core_ml_plans import plan_by_core_ml
    from coremlscope.measure.effort import Effort
    from coremlscope.reports.agreement import agreement_sections
    from coremlscope.reports.terminal.writer import write_terminal

    if arguments.os is not None:
        raise UsageError("--os needs --device", "leave --os out, or add for instance --device m4")
    with progress_line(not arguments.quiet) as progress:
        both = plan_by_core_ml(
            arguments.model,
            compute_units=arguments.compute_units,
            shapes=dict(arguments.shape),
            effort=Effort(timeout_s=arguments.timeout, memory_bytes=arguments.memory),
            progress=progress,
        )
    share_evidence(both, arguments)
    theirs = [plan for plan in both.plans if plan.planner == "Core ML"]
    _write([both], [with_plans(both, theirs)], arguments)
    if arguments.against_rules and arguments.json != "-" and not arguments.quiet:
        document = agreement_sections(both, list_all=True)
        print_result(write_terminal(document, width=terminal_width(), color=has_color()))
    return next((finding.exit_code for finding in both.findings if finding.exit_code), 0)


def _write(profiles: Sequence[Profile], shown: Sequence[Profile], arguments: argparse.Namespace) -> None:
    """Writes reports of profiles; prints the plans of `shown`, which may lack some of them."""
    from coremlscope.reports.answer_json import render_answers_json
    from coremlscope.reports.plan import plan_document, plans_to_json

    result = profiles[0] if len(profiles) == 1 else tuple(profiles)
    document = [block for profile in shown for block in plan_document(profile, list_ops=arguments.ops)]
    write_reports(result, arguments, document, lambda: render_answers_json(profiles, **plans_to_json(shown)))


COMMAND = Command(
    name="plan",
    doc="Show which compute unit of a device would run each operation, and why.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
