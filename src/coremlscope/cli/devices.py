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
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "device", metavar="NAME", nargs="?", help="a chip or a device, to see every number and its source"
    )
    add_json(parser, "every number with its source")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.devices import all_chips, find_device
    from coremlscope.render.json import render_values
    from coremlscope.render.terminal.devices import devices_to_json, render_chip, render_chips

    chosen = find_device(arguments.device).chip if arguments.device else None
    chips = [chosen] if chosen else list(all_chips().values())

    def tables(width: int, color: bool) -> str:
        if chosen is not None:
            return render_chip(chosen, width=width, color=color)
        return render_chips(chips, width=width, color=color)

    write_result(arguments, lambda: render_values(devices_to_json(chips)), tables)
    return 0


COMMAND = Command(
    name="devices",
    doc="List the known chips and devices.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
