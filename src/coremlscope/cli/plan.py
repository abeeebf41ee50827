"""`coremlscope plan`: which compute unit Core ML would run each operation on, at what cost, and why."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from coremlscope.cli.command import (
    EVERY,
    Command,
    add_compute_units,
    add_json,
    add_model,
    add_quiet,
    add_shape,
    write_result,
)
from coremlscope.cli.terminal import has_color, print_result, terminal_width
from coremlscope.errors import UsageError

if TYPE_CHECKING:
    from coremlscope.devices import ComputeUnits
    from coremlscope.placement.plan import Plan

__all__ = ["COMMAND"]


_EPILOG = """\
On a Mac, without --device, Core ML itself is asked; that path is not yet confirmed on a device.
All figures are planned by Core ML's own cost model, which only ranks the units; none is a time
that anything takes.

examples:
  coremlscope plan model.mlpackage --device m1
  coremlscope plan model.mlpackage --device iphone-15-pro --os 18 --compute-units every
  coremlscope plan model.mlpackage --device m4 --json - | jq '.functions.main.operations[0]'
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="a chip or a device: m1, a17-pro, iphone-15-pro; `coremlscope devices` lists them"
        " (on a Mac, without it: Apple's own plan for this Mac)",
    )
    parser.add_argument(
        "--os", metavar="VERSION", help="iOS or macOS on it: 18, 14.5 (default: the newest known)"
    )
    add_compute_units(parser, "all side by side")
    parser.add_argument("--against-rules", action="store_true", help="on a Mac: show our plan beside Apple's")
    parser.add_argument("--ops", action="store_true", help="list every operation, in order")
    add_shape(parser)
    add_json(parser)
    add_quiet(parser)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api

    wanted = arguments.compute_units
    setting: ComputeUnits = "all" if wanted == EVERY else wanted
    if arguments.device is None:
        return _ask_apple(arguments, setting)
    if arguments.against_rules:
        raise UsageError("--against-rules compares with Apple's plan", "leave --device out, on a Mac")
    plan = api.plan(
        arguments.model,
        arguments.device,
        os=arguments.os,
        compute_units=setting,
        every_setting=wanted == EVERY,
        shapes=dict(arguments.shape),
    )
    _write(plan, arguments)
    return 0


def _ask_apple(arguments: argparse.Namespace, setting: ComputeUnits) -> int:
    """Apple's own plan for this Mac, and ours beside it where that is asked for."""
    from coremlscope import api
    from coremlscope.render.terminal.plan import render_differences

    if sys.platform != "darwin":
        raise UsageError(
            "--device is missing", "name a chip or a device: --device m1; `coremlscope devices` lists them"
        )
    theirs, ours = api.plan_by_apple(arguments.model, compute_units=setting, shapes=dict(arguments.shape))
    _write(theirs, arguments)
    if arguments.against_rules and arguments.json != "-" and not arguments.quiet:
        print_result(render_differences(theirs, ours, width=terminal_width(), color=has_color()))
    return 0


def _write(plan: Plan, arguments: argparse.Namespace) -> None:
    from coremlscope.render.plan_json import render_plan_json
    from coremlscope.render.terminal.plan import render_plan

    def tables(width: int, color: bool) -> str:
        source = str(arguments.model)
        return render_plan(plan, source=source, width=width, color=color, list_ops=arguments.ops)

    write_result(arguments, lambda: render_plan_json(plan), tables)


COMMAND = Command(
    "plan",
    "Show which compute unit of a device would run each operation, and why.",
    _EPILOG,
    _configure,
    _run,
)
