"""`coremlscope`: finds the verb, runs it, and turns every error into a sentence and an exit code."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
import textwrap
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import coremlscope
from coremlscope.base.errors import INTERRUPTED_EXIT, UsageError, known_error
from coremlscope.base.escaping import path_text
from coremlscope.base.writing import check_apart
from coremlscope.cli.command import Command, Parser, help_width
from coremlscope.cli.terminal import abandon_output, print_error, print_note, print_result

#: The verbs, by what people want to do. Each is a module of this package, imported when it is asked for.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "estimate and plan": ("estimate", "plan", "rules", "ops", "devices"),
    "measure and record": ("profile", "runner", "import", "trace", "run", "measurements", "serve"),
    "inspect and run": ("inspect", "predict", "export", "compile"),
    "compare and change": ("compare", "what-if", "sweep", "convert", "isolate"),
    "check and explain": ("verify", "check", "doctor"),
    "this program": ("cache", "schema", "completion", "mcp"),
}
VERBS: tuple[str, ...] = tuple(name for group in GROUPS.values() for name in group)
#: The model without a verb, and the module of a verb whose name is a word of Python.
_ANSWER, _MODULES = "answer", {"import": "importing"}
#: Verbs that live on or run a program, and after how many allocations Python searches for unreachable cycles
#: in the others: the objects of a model live until the end.
_LASTING, _ALLOCATIONS = ("run", "serve", "mcp"), 200_000

_DESCRIPTION = "Says how fast Core ML models are on Apple devices, where the time goes, and what to change."
#: What people ask, and what they type then.
_QUESTIONS = {
    "How fast is it on my phone?": "coremlscope MODEL --device iphone-15-pro",
    "Where does it run?": "coremlscope MODEL --device m4",
    "Why not on the Neural Engine?": "coremlscope MODEL --device m4",
    "How do I make it smaller?": "coremlscope what-if MODEL --try int8,palettize-4",
    "Is it still right?": "coremlscope verify MODEL --reference NETWORK",
    "Which of two is faster?": "coremlscope A B",
    "What does this error mean?": "coremlscope doctor LOG",
    "What changed between two?": "coremlscope A B",
    "How many tokens per second?": "coremlscope MODEL",
    "Why is my app slow?": "coremlscope trace PROGRAM",
}
_EPILOG = (
    "`coremlscope VERB --help` describes each in full, `coremlscope --help-all` has a line for each. With"
    " `--debug`, every verb also prints the traceback of an error that coremlscope did not expect."
)
_DEBUG = "--debug"
#: Files that a sentence about an unexpected error names.
_MOST_NAMED = 3
#: Arguments that are paths, by what a verb does with them.
_READ = ("model", "models", "sources", "files", "reference", "baseline", "program", "script", "config")
_WRITTEN = ("output", "json", "fixed", "part", "share")
#: What replaces a verb that is gone.
_REPLACED = {
    "bisect": "coremlscope plan MODEL --device NAME",
    "calibrate": "coremlscope measurements add FILE",
    "evidence": "coremlscope import FILE --share OUT.json",
    "matrix": "coremlscope compare MODEL… --compute-units every",
    "query": "duckdb -c \"FROM 'sweep-results/estimates.parquet'\"",
    "top": "coremlscope trace --live PROGRAM",
}
#: Words that people write for a verb.
_MEANT = {
    **dict.fromkeys(("latency", "speed"), "estimate"),
    **dict.fromkeys(("placement", "explain", "why"), "plan"),
    **dict.fromkeys(("benchmark", "bench", "measure", "time"), "profile"),
    **dict.fromkeys(("compress", "quantize", "palettize", "prune", "optimize"), "what-if"),
    **dict.fromkeys(("record", "monitor"), "trace"),
    **dict.fromkeys(("info", "show", "describe", "summary"), "inspect"),
    **dict.fromkeys(("diff", "versus"), "compare"),
    **dict.fromkeys(("validate", "accuracy"), "verify"),
    **dict.fromkeys(("diagnose", "error"), "doctor"),
    **dict.fromkeys(("gui", "view"), "serve"),
}
_BROKEN_PIPE = 141


def is_path(text: str) -> bool:
    """Returns whether a word that is no verb is meant as a path: it has a suffix or a slash."""
    return not text.startswith("-") and ("/" in text or "\\" in text or "." in text.strip("."))


def find_command(name: str) -> Command:
    """Returns what a verb is: its help, its options and what it does."""
    module = importlib.import_module(f"coremlscope.cli.{_MODULES.get(name, name.replace('-', '_'))}")
    command: Command = module.COMMAND
    return command


def all_commands() -> tuple[Command, ...]:
    """Returns all verbs, which takes the time to import them."""
    return tuple(map(find_command, VERBS))


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
        return INTERRUPTED_EXIT
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
    first = given[0] if given else "--help"
    if first in ("-h", "--help", "--help-all"):
        print_result(_overview(every=first == "--help-all"))
        return 0
    if first == "--version":
        print_result(f"coremlscope {coremlscope.__version__}")
        return 0
    name = _MEANT.get(first, first)
    if name in VERBS:
        given = given[1:]
        if name != first:
            print_note(f"{first!r} is `coremlscope {name}`")
    elif any(map(is_path, given)):
        name = _ANSWER
    else:
        _refuse(first)
    verb = find_command(name)
    chosen = _parser(name, verb)
    try:
        _, rest = chosen.parse_known_args(given, known)
    except SystemExit as leaving:
        # After --help.
        return int(leaving.code or 0)
    if rest:
        chosen.refuse(rest[0])
    _check_outputs(known)
    if name not in _LASTING:
        gc.set_threshold(_ALLOCATIONS)
    gc.enable()
    if known.debug:
        import logging

        logging.getLogger("coremlscope").setLevel(logging.DEBUG)  # for errors after which a server goes on
    return verb.run(known)


def _refuse(first: str) -> NoReturn:
    """Ends with what a first argument may have meant that is neither an option, a verb nor a path.

    Raises:
        UsageError: Always.
    """
    if first.startswith("-"):
        parser = Parser(prog="coremlscope")
        for option in ("--version", "--help-all"):
            parser.add_argument(option, action="store_true")
        parser.refuse(first)
    if first in _REPLACED:
        raise UsageError(f"coremlscope has no verb {first!r} any more", f"`{_REPLACED[first]}`")
    from coremlscope.model.features.names import nearest

    near = nearest(first, VERBS) or _MEANT.get(nearest(first, _MEANT) or "")
    hint = f"did you mean `coremlscope {near}`?" if near else f"the verbs are {', '.join(VERBS)}"
    raise UsageError(f"coremlscope has no verb {first!r}", hint)


def _overview(*, every: bool) -> str:
    """Returns the help: what people ask and type, then the verbs by group; `every` has a line for each."""
    width = help_width()
    lines = ["usage: coremlscope MODEL… [--device NAME,…]", "       coremlscope VERB …", ""]
    lines += [*textwrap.wrap(_DESCRIPTION, width), ""]
    if every:
        for title, group in GROUPS.items():
            lines += [
                f"{title}:",
                *(line for one in group for line in _row(one, find_command(one).doc, 14, width)),
                "",
            ]
    else:
        for question, command in _QUESTIONS.items():
            lines += _row(question, command, 31, width)
        lines += ["", "verbs:"]
        for title, group in GROUPS.items():
            lines += _row(title, ", ".join(group), 20, width)
        lines.append("")
    return "\n".join([*lines, *textwrap.wrap(_EPILOG, width)])


def _row(label: str, text: str, indent: int, width: int) -> list[str]:
    """Returns the lines of a label and a text next to it."""
    parts = textwrap.wrap(text, max(width - indent - 2, 20), break_on_hyphens=False)
    return [f"  {label if number == 0 else '':<{indent}}{part}" for number, part in enumerate(parts)]


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


def _parser(name: str, verb: Command) -> Parser:
    """Returns the parser of a verb's arguments, or of a model without a verb."""
    parser = Parser(prog="coremlscope", description=verb.doc, epilog=verb.epilog)
    chosen = parser
    if name == _ANSWER:
        verb.configure(parser)
    else:
        group = parser.add_subparsers(title="verbs", metavar="VERB", parser_class=Parser, required=True)
        # The script of `completion` completes the arguments of all.
        for command in all_commands() if name == "completion" else (verb,):
            one: Parser = group.add_parser(
                command.name, help=command.doc, description=command.doc, epilog=command.epilog
            )
            command.configure(one)
            chosen = one if command is verb else chosen
    for each in (parser, *(group.choices.values() if name != _ANSWER else ())):
        each.add_argument(_DEBUG, action="store_true", help=argparse.SUPPRESS)
        each.set_defaults(parser=parser)
    return chosen
