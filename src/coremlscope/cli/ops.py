"""`coremlscope ops`: describes Core ML's operations."""

from __future__ import annotations

import argparse

from coremlscope.cli.command import Command, add_json, write_result
from coremlscope.cli.lookup import add_device, chosen_device

_SCHEMA = "coremlscope.ops/1"
_EPILOG = """\
With NAME: what the operation computes, the ONNX operators that it is lowered to, its work, and
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
    from coremlscope.planning.placement.catalog import describe_op
    from coremlscope.reports.json import render_values
    from coremlscope.reports.rules import op_document, ops_document

    device = chosen_device(arguments)
    names = sorted(OPS) if arguments.name is None else [arguments.name]

    def values() -> str:
        cards = [describe_op(name, device).to_json() for name in names]
        return render_values({"schema": _SCHEMA, "operations": cards})

    if arguments.name is None:
        document = ops_document([(name, OPS[name].doc) for name in names])
    else:
        document = op_document(describe_op(arguments.name, device))
    write_result(arguments, values, document)
    return 0


COMMAND = Command(
    name="ops",
    doc="Describe an operation: its work, lowering and placement rules.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
