"""`coremlscope devices`: the chips and devices that models can be planned for."""

from __future__ import annotations

import argparse

from coremlscope.cli.command import Command, add_json, write_result

__all__ = ["COMMAND"]

_EPILOG = """\
Unpublished numbers are omitted; `coremlscope devices NAME` shows the source of each number.

examples:
  coremlscope devices
  coremlscope devices iphone-15-pro
  coremlscope devices m4 --json -
  coremlscope devices m4-pro --rates
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "device", metavar="NAME", nargs="?", help="a chip or a device, to see every number and its source"
    )
    parser.add_argument(
        "--rates", action="store_true", help="the rates behind planned costs on NAME, each with its source"
    )
    parser.add_argument("--os", metavar="VERSION", help="with --rates: the system; default: the newest")
    add_json(parser, "every number with its source")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.rates:
        return _show_rates(arguments)
    from coremlscope.devices import all_chips, find_device
    from coremlscope.reports.json import render_values
    from coremlscope.reports.terminal.devices import devices_to_json, render_chip, render_chips

    chosen = find_device(arguments.device).chip if arguments.device else None
    chips = [chosen] if chosen else list(all_chips().values())

    def tables(width: int, color: bool) -> str:
        if chosen is not None:
            return render_chip(chosen, width=width, color=color)
        return render_chips(chips, width=width, color=color)

    write_result(arguments, lambda: render_values(devices_to_json(chips)), tables)
    return 0


def _show_rates(arguments: argparse.Namespace) -> int:
    from coremlscope.base.errors import UsageError
    from coremlscope.devices import find_device
    from coremlscope.planning.cost.planned.rates import rate_table
    from coremlscope.reports.json import render_values
    from coremlscope.reports.terminal.devices import rates_to_json, render_rates

    if not arguments.device:
        raise UsageError("--rates requires the name of a device", "`coremlscope devices` lists them")
    table = rate_table(find_device(arguments.device, arguments.os))
    write_result(
        arguments,
        lambda: render_values(rates_to_json(table)),
        lambda width, color: render_rates(table, width=width, color=color),
    )
    return 0


COMMAND = Command(
    name="devices",
    doc="List the known chips and devices.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
