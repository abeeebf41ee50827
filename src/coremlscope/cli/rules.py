"""`coremlscope rules`: the rules on which operations each compute unit supports, with sources."""

from __future__ import annotations

import argparse

import msgspec

from coremlscope.cli.command import Command, add_json, one_of, write_result
from coremlscope.cli.lookup import add_device, chosen_device

_SCHEMA = "coremlscope.rules/1"
_UNITS = ("neural_engine", "gpu", "cpu")
_EFFECTS = ("rejects", "fails", "corrupts", "crashes", "hangs", "advises", "runs")
_EPILOG = """\
Rules come from published measurements of Core ML, Apple's documentation, analyses of its
compiler and reports of developers; each has a source and a confidence. A rule that rejects an
operation keeps it off the unit; a rule that fails keeps the whole function off the unit; advice
does not change the placement.

examples:
  coremlscope rules --unit neural_engine --effect rejects
  coremlscope rules --op conv --device m1
  coremlscope rules ne-conv-width
  coremlscope rules --json rules.json
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rule", metavar="RULE", nargs="?", help="show this rule in full")
    parser.add_argument(
        "--unit",
        metavar="UNIT",
        type=one_of("unit", *_UNITS),
        help=f"only those of this unit: {', '.join(_UNITS)}",
    )
    parser.add_argument("--op", metavar="NAME", help="only those that can apply to this operation")
    parser.add_argument(
        "--effect",
        metavar="EFFECT",
        type=one_of("effect", *_EFFECTS),
        help=f"only those with this effect: {', '.join(_EFFECTS)}",
    )
    parser.add_argument(
        "--provider",
        metavar="NAME",
        type=one_of("provider", "onnxruntime"),
        help="onnxruntime: those of ONNX Runtime's Core ML provider instead, by operator of ONNX",
    )
    add_device(parser)
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.planning.placement.catalog import find_rule, list_rules
    from coremlscope.reports.json import render_values
    from coremlscope.reports.rules import rule_document, rules_document

    if arguments.provider is not None:
        return _list_provider_rules(arguments)
    if arguments.rule is not None:
        entries = [find_rule(arguments.rule)]
    else:
        device = chosen_device(arguments)
        entries = list_rules(arguments.unit, arguments.op, device, arguments.effect)
    document = rules_document(entries) if arguments.rule is None else rule_document(entries[0])

    def values() -> str:
        return render_values({"schema": _SCHEMA, "rules": [entry.to_json() for entry in entries]})

    write_result(arguments, values, document)
    return 0


def _list_provider_rules(arguments: argparse.Namespace) -> int:
    from coremlscope.planning.onnxruntime.catalog import list_provider_rules
    from coremlscope.reports.json import render_values
    from coremlscope.reports.provider import provider_rules_document

    rows = list_provider_rules(arguments.op, arguments.rule)

    def values() -> str:
        return render_values({"schema": "coremlscope.provider-rules/1", "rules": msgspec.to_builtins(rows)})

    write_result(arguments, values, provider_rules_document(rows))
    return 0


COMMAND = Command(
    name="rules",
    doc="Show what each compute unit runs and does not run.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
