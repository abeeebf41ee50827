"""`coremlscope schema`: the JSON Schema of profiles, lists of them, and model descriptions."""

from __future__ import annotations

import argparse

from coremlscope.cli.command import Command, add_output, write_output

_EPILOG = """\
The schema (2020-12) describes profiles, lists of profiles and model descriptions, as written by
`profile`, `plan`, `estimate` and `inspect` with -o FILE.json. It does not include
comparisons and the short forms that `plan` and `estimate` print with --json.

examples:
  coremlscope schema | jq '."$defs".Measurement'
  coremlscope schema -o results.schema.json
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_output(parser, "schema")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.reports.json import render_values
    from coremlscope.results.schema import json_schema

    write_output(arguments, render_values(json_schema()))
    return 0


COMMAND = Command(
    name="schema",
    doc="Print the JSON Schema of profiles and model descriptions.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
