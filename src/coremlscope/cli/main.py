"""`coremlscope`: finds the verb, runs it, and turns every error into a sentence and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import coremlscope
from coremlscope.base.errors import UsageError, known_error
from coremlscope.base.escaping import path_text
from coremlscope.base.writing import check_apart
from coremlscope.cli import (
    cache,
    check,
    compare,
    compile,
    completion,
    convert,
    devices,
    doctor,
    estimate,
    export,
    importing,
    inspect,
    isolate,
    mcp,
    measurements,
    ops,
    plan,
    predict,
    probe,
    profile,
    rules,
    run,
    runner,
    schema,
    serve,
    sweep,
    trace,
    verify,
    what_if,
)
from coremlscope.cli.command import Command, Parser
from coremlscope.cli.terminal import abandon_output, print_error, print_note

__all__ = ["COMMANDS", "main"]

COMMANDS: tuple[Command, ...] = (
    profile.COMMAND,
    compare.COMMAND,
    sweep.COMMAND,
    runner.COMMAND,
    importing.COMMAND,
    inspect.COMMAND,
    predict.COMMAND,
    verify.COMMAND,
    export.COMMAND,
    compile.COMMAND,
    convert.COMMAND,
    isolate.COMMAND,
    probe.COMMAND,
    rules.COMMAND,
    ops.COMMAND,
    run.COMMAND,
    trace.COMMAND,
    plan.COMMAND,
    estimate.COMMAND,
    what_if.COMMAND,
    check.COMMAND,
    measurements.COMMAND,
    devices.COMMAND,
    doctor.COMMAND,
    cache.COMMAND,
    serve.COMMAND,
    mcp.COMMAND,
    schema.COMMAND,
    completion.COMMAND,
)

_DESCRIPTION = "Profile, inspect and run Core ML models on any machine."
_EPILOG = """\
`coremlscope VERB --help` describes each in full. With `--debug`, every verb also prints the traceback of
an error that coremlscope did not expect.
"""
_DEBUG = "--debug"
#: Files that a sentence about an unexpected error names.
_MOST_NAMED = 3
#: Arguments that are paths, by what a verb does with them. A baseline may be replaced by a newer one.
_READ = ("model", "models", "sources", "files", "reference", "program", "script", "config")
_WRITTEN = ("output", "json", "fixed", "part", "share")
#: What replaces a verb that is gone.
_REPLACED = {
    "bisect": "coremlscope isolate MODEL --smallest WHAT",
    "calibrate": "coremlscope measurements add FILE",
    "evidence": "coremlscope import FILE --share OUT.json",
    "matrix": "coremlscope compare MODEL… --compute-units every",
    "query": "duckdb -c \"FROM 'sweep-results/estimates.parquet'\"",
    "top": "coremlscope trace --live PROGRAM",
}
_INTERRUPTED, _BROKEN_PIPE = 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: Those after the program's name; by default the process's own.

    Returns:
        The exit code: 0, that of the error, 130 after Ctrl-C, 141 if the reader of the output went away.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    # What the verb is given, as far as it is known.
    known = argparse.Namespace(debug=_DEBUG in given)
    try:
        code = _run(given, known)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print_note("interrupted")
        return _INTERRUPTED
    except BrokenPipeError:
        abandon_output()
        return _BROKEN_PIPE
    except Exception as error:
        expected = known_error(error, ", ".join(map(path_text, _paths(known, _READ)[:_MOST_NAMED])))
        if known.debug and expected is not error:
            traceback.print_exception(error)
        print_error(expected)
        return expected.exit_code
    return code


def _run(given: list[str], known: argparse.Namespace) -> int:
    parser, verbs = _parsers(given[0] if given else "")
    if not given:
        parser.print_help()
        return 0
    if given[0].startswith("-") and given[0] not in ("-h", "--help", "--version"):
        parser.refuse(given[0])
    if not given[0].startswith("-") and given[0] not in verbs:
        if given[0] in _REPLACED:
            raise UsageError(f"coremlscope has no verb {given[0]!r} any more", f"`{_REPLACED[given[0]]}`")
        from coremlscope.model.features.names import nearest

        near = nearest(given[0], verbs)
        hint = f"did you mean `coremlscope {near}`?" if near else f"the verbs are {', '.join(verbs)}"
        raise UsageError(f"coremlscope has no verb {given[0]!r}", hint)
    try:
        _, rest = parser.parse_known_args(given, known)
    except SystemExit as leaving:
        # After --help and --version.
        return int(leaving.code or 0)
    if rest:
        verbs.get(given[0], parser).refuse(rest[0])
    _check_outputs(known)
    if known.debug:
        import logging

        logging.getLogger("coremlscope").setLevel(logging.DEBUG)  # for errors after which a server goes on
    command: Command = known.command
    return command.run(known)


def _check_outputs(known: argparse.Namespace) -> None:
    """Checks that no file is both read and written.

    Raises:
        OutputError: A file is both.
    """
    read = {os.path.realpath(path): path for path in _paths(known, _READ)}
    for path in _paths(known, _WRITTEN):
        if os.path.realpath(path) in read:
            check_apart(path, read[os.path.realpath(path)])


def _paths(known: argparse.Namespace, names: Sequence[str]) -> list[Path]:
    """Returns the paths among arguments, which have one value or several; `-` is none."""
    values = (getattr(known, name, None) for name in names)
    several = (value if isinstance(value, list) else [value] for value in values)
    return [
        Path(path) for group in several for path in group if isinstance(path, str | Path) and str(path) != "-"
    ]


def _parsers(chosen: str) -> tuple[Parser, dict[str, Parser]]:
    """Returns the parser of the command line, and those of verbs; the chosen one alone has arguments."""
    parser = Parser(prog="coremlscope", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action="version", version=f"coremlscope {coremlscope.__version__}")
    group = parser.add_subparsers(title="verbs", metavar="VERB", parser_class=Parser, required=True)
    verbs = {}
    for command in COMMANDS:
        verb: Parser = group.add_parser(
            command.name, help=command.doc, description=command.doc, epilog=command.epilog
        )
        if chosen in (command.name, completion.COMMAND.name):  # the script completes the arguments of all
            command.configure(verb)
        verb.add_argument(_DEBUG, action="store_true", help=argparse.SUPPRESS)
        verb.set_defaults(command=command, parser=parser)
        verbs[command.name] = verb
    return parser, verbs
