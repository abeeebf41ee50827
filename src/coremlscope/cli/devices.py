"""`coremlscope devices`: the chips and devices that models can be planned for."""

from __future__ import annotations

import argparse

from coremlscope.cli.command import Command, add_json, write_result

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
    from coremlscope.reports.devices import chip_document, chips_document, devices_to_json
    from coremlscope.reports.json import render_values

    chosen = find_device(arguments.device).chip if arguments.device else None
    chips = [chosen] if chosen else list(all_chips().values())
    document = chips_document(chips) if chosen is None else chip_document(chosen)
    write_result(arguments, lambda: render_values(devices_to_json(chips)), document)
    return 0


def _show_rates(arguments: argparse.Namespace) -> int:
    from coremlscope.base.errors import UsageError
    from coremlscope.devices import find_device
    from coremlscope.planning.cost.planned.rates import rate_table
    from coremlscope.reports.devices import rates_document, rates_to_json
    from coremlscope.reports.json import render_values

    if not arguments.device:
        raise UsageError("--rates requires the name of a device", "`coremlscope devices` lists them")
    table = rate_table(find_device(arguments.device, arguments.os))
    write_result(arguments, lambda: render_values(rates_to_json(table)), rates_document(table))
    return 0


COMMAND = Command(
    name="devices",
    doc="List the known chips and devices.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
