"""`coremlscope ops`: what is known of Core ML's operations."""

from __future__ import annotations

import argparse

from coremlscope.cli.command import Command
from coremlscope.cli.lookup import add_device, add_json, chosen_device, write_json
from coremlscope.cli.terminal import has_color, print_result, terminal_width

__all__ = ["COMMAND"]

_SCHEMA = "coremlscope.ops/1"
_EPILOG = """\
One operation is shown with what it computes, the ONNX operators that it becomes, its work, and
every rule about where Core ML runs it.

examples:
  coremlscope ops
  coremlscope ops conv
  coremlscope ops gather --device iphone-15-pro
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="the operation (default: list all)")
    add_device(parser)
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.ops import OPS
    from coremlscope.placement.catalog import describe_op
    from coremlscope.render.console_rules import render_op, render_ops

    width, color = terminal_width(), has_color()
    device = chosen_device(arguments)
    if arguments.name is not None:
        card = describe_op(arguments.name, device)
        if arguments.json is not None:
            write_json(arguments.json, {"schema": _SCHEMA, "operations": [card.to_json()]})
        else:
            print_result(render_op(card, width=width, color=color))
        return 0
    if arguments.json is not None:
        cards = [describe_op(name, device).to_json() for name in sorted(OPS)]
        write_json(arguments.json, {"schema": _SCHEMA, "operations": cards})
    else:
        print_result(render_ops([(name, OPS[name].doc) for name in sorted(OPS)], width=width, color=color))
    return 0


COMMAND = Command("ops", "Show what is known of an operation.", _EPILOG, _configure, _run)
