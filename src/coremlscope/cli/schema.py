"""`coremlscope schema`: the JSON Schema of profiles, lists of them, and model descriptions."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.cli.command import Command, add_quiet
from coremlscope.cli.terminal import check_target, print_note, print_result, write_file

__all__ = ["COMMAND"]

_EPILOG = """\
The schema (2020-12) describes profiles, lists of profiles and model descriptions, as written by
`profile`, `plan`, `estimate`, `matrix` and `inspect` with -o FILE.json. It does not include
comparisons and the short forms that `plan` and `estimate` print with --json.

examples:
  coremlscope schema | jq '."$defs".Measurement'
  coremlscope schema -o results.schema.json
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write the schema to this file instead of printing it",
    )
    add_quiet(parser, "do not print a note on the file that was written")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.render.json import render_values
    from coremlscope.results.schema import json_schema

    output: Path | None = arguments.output
    if output is not None:
        check_target(output)
    text = render_values(json_schema())
    if output is None:
        print_result(text)
        return 0
    write_file(output, text)
    if not arguments.quiet:
        print_note(f"wrote {output}")
    return 0


COMMAND = Command(
    name="schema",
    doc="Print the JSON Schema of profiles and model descriptions.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
