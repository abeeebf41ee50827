"""`coremlscope inspect`: what a model is, without running it."""

from __future__ import annotations

import argparse

from coremlscope.cli.command import Command, add_model, add_reports, add_shape
from coremlscope.cli.repetitions import add_function
from coremlscope.cli.reports import write_reports

__all__ = ["COMMAND"]

_EPILOG = """\
examples:
  coremlscope inspect model.mlpackage
  coremlscope inspect model.mlpackage --ops
  coremlscope inspect model.mlpackage --json - | jq .parameters
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--ops",
        action="store_true",
        help="list every operation with the shapes of its results, in reports too",
    )
    add_function(parser, "to show in full")
    add_shape(parser)
    add_reports(parser, ".html, .json, .md, .csv or .txt", "SUMMARY_RENDERERS", json="the description")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.render import render_console

    needs_ops = arguments.ops or any(path.suffix.lower() == ".csv" for path in arguments.output)
    summary = api.inspect(
        arguments.model, shapes=dict(arguments.shape), function=arguments.function, list_ops=needs_ops
    )

    def tables(width: int, color: bool) -> str:
        return render_console(summary, width=width, color=color)

    write_reports(summary, arguments, tables)
    return 0


COMMAND = Command(
    name="inspect",
    doc="Show what a model is, without running it.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
