"""Commands and the parsing of their arguments; every invalid argument becomes a message and a hint."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec

from coremlscope.base.errors import OutputError, UsageError
from coremlscope.base.writing import check_file, write_file
from coremlscope.cli.terminal import (
    has_color,
    print_note,
    print_result,
    terminal_width,
)
from coremlscope.devices.unit import SETTINGS, ComputeUnits
from coremlscope.reports.renderers import Renderer, find_renderer, list_formats

if TYPE_CHECKING:
    from coremlscope.reports.document import Document

#: The value of `--compute-units` for all settings.
EVERY = "every"
_WIDEST_HELP = 100
#: Characters that the second column of a table in a help text has at least.
_LEAST_COLUMN = 20
#: The default description of what `--json` writes.
_WHOLE_RESULT = "the whole result"


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command.

    Attributes:
        name: The name on the command line.
        doc: One line for the list of commands.
        epilog: The end of the help: examples.
        configure: Adds the arguments.
        run: Runs the command and returns the exit code.
    """

    name: str
    doc: str
    epilog: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Formats help identically on every version of Python."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=help_width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wraps paragraphs and the second column of tables; other indented lines, as examples, stay."""
        parts = re.split(r"(\n\s*\n|\n(?=  \S)|(?<=:)\n)", text)
        return "".join(part and _wrapped(part, width) for part in parts)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = ", ".join(action.option_strings)
        if action.nargs == 0:
            return names
        return f"{names} {self._format_args(action, str(action.metavar or action.dest.upper()))}"


def help_width() -> int:
    """Returns the number of columns of help texts."""
    return max(min(shutil.get_terminal_size().columns, _WIDEST_HELP), 40)


def _wrapped(part: str, width: int) -> str:
    if not part.strip():
        return part
    if not part.startswith(" "):
        return textwrap.fill(part, width)
    row = re.match(r"( +\S+(?: \S+)*  +)(?=\S)", part)
    if row is None or width < row.end() + _LEAST_COLUMN:
        return part
    words = " ".join(part[row.end() :].split())
    return row[0] + textwrap.fill(words, width - row.end()).replace("\n", "\n" + " " * row.end())


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of ending the process."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, **options)
        self.color = False

    def error(self, message: str) -> NoReturn:
        """Raises a message of argparse as a UsageError."""
        text, _, hint = message.partition("\n")
        text = text.removeprefix("argument ")
        missing = "the following arguments are required: "
        if text.startswith(missing):
            names = text.removeprefix(missing)
            text = f"{names} {'are' if ',' in names else 'is'} missing"
        raise UsageError(text, hint or f"see `{self.prog} --help`")

    def refuse(self, argument: str) -> NoReturn:
        """Raises an error for an unknown argument that suggests a similar option."""
        from coremlscope.model.features.names import nearest

        known = [option for action in self._actions for option in action.option_strings]
        name = argument.partition("=")[0]
        options = [option[2:] for option in known]
        near = nearest(name[2:], options, 0.6) if name.startswith("--") else None
        hint = f"did you mean --{near}?" if near else f"see `{self.prog} --help`"
        operands = [action for action in self._actions if not action.option_strings]
        if name in ("-o", "--output") and any(action.dest == "output" for action in operands):
            hint = (
                f"name the output last: `{self.prog} {' '.join(str(action.metavar) for action in operands)}`"
            )
        verb = "has no option" if name.startswith("-") else "takes no further argument"
        raise UsageError(f"`{self.prog}` {verb} {name!r}", hint)


class OneOf(msgspec.Struct, frozen=True):
    """A type of arguments that accepts one of several words.

    Attributes:
        what: What the words name: `compute units`.
        values: The words.
    """

    what: str
    values: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """Returns the word; raises an error that suggests a similar one."""
        if text in self.values:
            return text
        from coremlscope.model.features.names import nearest

        near = nearest(text, self.values)
        listed = ", ".join(self.values)
        hint = f"did you mean {near}? (one of {listed})" if near else f"use one of {listed}"
        raise argparse.ArgumentTypeError(f"invalid {self.what} {text!r}\n{hint}")


def one_of(what: str, *values: str) -> OneOf:
    """Returns a type of arguments that accepts one of several words.

    Args:
        what: What the words name: `compute units`.
        values: The words.
    """
    return OneOf(what, values)


def _settings(text: str) -> tuple[ComputeUnits, ...]:
    """Parses settings of compute units, separated by commas, or `every`."""
    parse = one_of("compute units", *SETTINGS, EVERY)
    names = [parse(name.strip()) for name in text.split(",")]
    return (
        tuple(SETTINGS) if EVERY in names else cast("tuple[ComputeUnits, ...]", tuple(dict.fromkeys(names)))
    )


def at_least(least: int) -> Callable[[str], int]:
    """Returns an argument type that accepts whole numbers of at least `least`."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number\ngive {least} or more"
            ) from None
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is too small\ngive {least} or more")
        return number

    return parse


def _named(text: str) -> tuple[str, str]:
    """Parses `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} does not name an input\nwrite it as NAME=VALUE")
    return name, value


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parses `NAME=1x3x224x224`."""
    name, equals, value = text.partition("=")
    try:
        sizes = tuple(int(size) for size in value.lower().replace("×", "x").replace(",", "x").split("x"))
    except ValueError:
        sizes = ()
    if not name or not sizes or min(sizes) < 1:
        wrong = f"{value!r} is not a shape" if name and equals else f"{text!r} does not name an input"
        raise argparse.ArgumentTypeError(f"{wrong}\nwrite it as NAME=1x3x224x224")
    return name, sizes


def _report_path(renderers: Sequence[Renderer]) -> Callable[[str], Path]:
    """Returns an argument type that accepts a file whose suffix selects a report format."""

    def parse(text: str) -> Path:
        path = Path(text)
        try:
            find_renderer(path, renderers)
        except UsageError as error:
            raise argparse.ArgumentTypeError(f"{error.message}\n{error.hint}") from None
        check_file(path)
        return path

    return parse


def _target(text: str) -> str:
    """Parses the path of a file that can be written, or `-`."""
    if text != "-":
        check_file(Path(text))
    return text


def read_path(text: str) -> Path:
    """Parses the path of what is read. An empty one, as of a variable that is not set, is not this folder."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty\ngive a path, or . for this folder")
    return Path(text)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds the argument MODEL."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        type=read_path,
        help=".mlpackage, .mlmodelc, .mlmodel, .aimodel, .onnx or .zip; or App.ipa#NAME",
    )


def add_compute_units(
    parser: argparse.ArgumentParser, doc: str = "what the app allows", *, default: str = "all"
) -> None:
    """Adds `--compute-units` with one setting, several of them, or all.

    Args:
        parser: The command's parser.
        doc: The purpose of the settings.
        default: The default.
    """
    parser.add_argument(
        "--compute-units",
        metavar="UNITS,…",
        type=_settings,
        default=_settings(default),
        help=f"{doc}: {', '.join(SETTINGS)}, several of them, or {EVERY} (default: {default})",
    )


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Adds `--shape`."""
    parser.add_argument(
        "--shape",
        metavar="NAME=1x3x8x8",
        type=_shape,
        action="append",
        default=[],
        help="shape of a flexible input; for an image also NAME=HEIGHTxWIDTH (repeatable)",
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Adds `--input` and `--resize`."""
    from coremlscope.model.features.images import DEFAULT_RESIZE, RESIZES

    parser.add_argument(
        "--input",
        metavar="NAME=FILE",
        type=_named,
        action="append",
        default=[],
        help="value of an input: .npy, .npz, .json, .txt or an image file; or a number, a string or JSON"
        " (repeatable)",
    )
    parser.add_argument(
        "--resize",
        metavar="HOW",
        type=one_of("resize method", *RESIZES),
        default=DEFAULT_RESIZE,
        help=f"how images of another size are resized: {', '.join(RESIZES)} (default: {DEFAULT_RESIZE})",
    )


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Adds `--precision`."""
    parser.add_argument(
        "--precision",
        metavar="TYPE",
        type=one_of("precision", "fp32", "fp16"),
        default="fp32",
        help="fp16: also round every fp16 result as a device does, and show where numbers overflow"
        " (default: fp32)",
    )


def add_reports(
    parser: argparse.ArgumentParser,
    renderers: Sequence[Renderer],
    *,
    json: str = _WHOLE_RESULT,
    flags: Sequence[str] = ("-o", "--output"),
) -> None:
    """Adds `-o`, `--json` and `--quiet`.

    Args:
        parser: The verb's parser.
        renderers: The formats.
        json: What `--json` writes.
        flags: The names of the option for reports, where `-o` has another meaning.
    """
    parser.add_argument(
        *flags,
        dest="output",
        metavar="FILE",
        type=_report_path(renderers),
        action="append",
        default=[],
        help=f"write a report; the suffix selects the format: {list_formats(renderers)} (repeatable)",
    )
    add_json(parser, json)
    add_quiet(parser)


def add_json(parser: argparse.ArgumentParser, what: str = _WHOLE_RESULT) -> None:
    """Adds `--json`; see `write_result`.

    Args:
        parser: The verb's parser.
        what: What is written.
    """
    parser.add_argument(
        "--json",
        metavar="FILE",
        type=_target,
        help=f"write {what} as JSON to a file, or with - to standard output instead of the tables",
    )


def add_quiet(
    parser: argparse.ArgumentParser,
    what: str = "print no tables, notes and progress, only what --json - prints",
) -> None:
    """Adds `--quiet`; see `write_result`."""
    parser.add_argument("--quiet", action="store_true", help=what)


def add_output(parser: argparse.ArgumentParser, what: str) -> None:
    """Adds `-o` and `--quiet`; see `write_output`.

    Args:
        parser: The verb's parser.
        what: What is written.
    """
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=_target,
        default="-",
        help=f"write the {what} to this file instead of printing it",
    )
    add_quiet(parser, "do not print a note on the file that was written")


def write_output(arguments: argparse.Namespace, text: str) -> None:
    """Writes text to the file that `-o` names, or prints it.

    Args:
        arguments: The parsed arguments, with those of `add_output`.
        text: The text.

    Raises:
        OutputError: The file, or standard output, cannot be written.
    """
    if arguments.output == "-":
        print_result(text)
        return
    write_file(arguments.output, text)
    if not arguments.quiet:
        print_note(f"wrote {arguments.output}")


def shows_tables(arguments: argparse.Namespace) -> bool:
    """True if `write_result` prints tables on the terminal that also shows standard error."""
    is_printed = arguments.json != "-" and not getattr(arguments, "quiet", False)
    return is_printed and all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))


def write_result(
    arguments: argparse.Namespace, as_json: Callable[[], str], shown: Document | Callable[[int, bool], str]
) -> None:
    """Writes JSON to the file that `--json` names, and prints the tables.

    With `--json -` JSON is printed instead of the tables. With `--quiet` the tables are not printed.

    Args:
        arguments: The parsed arguments; verbs may lack `--quiet`.
        as_json: Returns the result as JSON text.
        shown: Its document, or what returns its tables, given the number of columns and whether to colour
            them.

    Raises:
        OutputError: The file, or standard output, cannot be written.
    """
    quiet = getattr(arguments, "quiet", False)
    if arguments.json == "-":
        print_result(as_json())
        return
    failure: OutputError | None = None
    if arguments.json:
        try:
            write_file(arguments.json, as_json())
        except OutputError as error:  # The tables are printed nevertheless.
            failure = error
        else:
            if not quiet:
                print_note(f"wrote {arguments.json}")
    if not quiet:
        print_result(_as_text(shown))
    if failure is not None:
        raise failure


def _as_text(shown: Document | Callable[[int, bool], str]) -> str:
    if callable(shown):
        return shown(terminal_width(), has_color())
    from coremlscope.reports.terminal.writer import write_terminal

    return write_terminal(shown, width=terminal_width(), color=has_color())
