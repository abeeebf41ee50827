"""`coremlscope devices`: the chips and devices that plans can be made for."""

from __future__ import annotations

import argparse
import json

from coremlscope.cli.command import Command
from coremlscope.cli.terminal import has_color, print_result, terminal_width

__all__ = ["COMMAND"]

_EPILOG = """\
What no one has published is left out; each number's source is in `coremlscope devices NAME`.

examples:
  coremlscope devices
  coremlscope devices iphone-15-pro
  coremlscope devices m4 --json -
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "device", metavar="NAME", nargs="?", help="a chip or a device, to see every number and its source"
    )
    parser.add_argument(
        "--json", metavar="-", choices=["-"], help="write everything as JSON to standard output"
    )


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.devices import all_chips, find_device
    from coremlscope.render.devices import devices_to_json, render_chip, render_chips

    chips = list(all_chips().values())
    chosen = find_device(arguments.device).chip if arguments.device else None
    width, color = terminal_width(), has_color()
    if arguments.json:
        shown = devices_to_json([chosen] if chosen else chips)
        print_result(json.dumps(shown, ensure_ascii=False, indent=1))
    elif chosen:
        print_result(render_chip(chosen, width=width, color=color))
    else:
        print_result(render_chips(chips, width=width, color=color))
    return 0


COMMAND = Command("devices", "List the chips and devices that are known.", _EPILOG, _configure, _run)
