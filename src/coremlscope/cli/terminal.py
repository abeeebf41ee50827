"""What is written where: results to standard output, everything else to standard error."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TextIO

from coremlscope.errors import CoremlscopeError, OutputError
from coremlscope.units import escape_controls

__all__ = [
    "abandon_output",
    "check_target",
    "has_color",
    "print_error",
    "print_note",
    "print_result",
    "terminal_width",
    "write_file",
]

_NARROWEST = 40
#: Width where standard output is no terminal and COLUMNS is not set.
_PIPED_WIDTH = 100

#: Stand-ins for terminals and pipes that cannot show a character.
_PLAIN = str.maketrans({
    "×": "x", "…": "...", "–": "-", "−": "-", "→": "->", "≥": ">=", "µ": "u", "·": "|", "∞": "inf",
    "█": "#", "▏": "", "▎": "", "▍": "", "▌": "", "▋": "#", "▊": "#", "▉": "#", "±": "+-",
    "●": "@", "○": "o", "◇": "-", "•": "*",
})  # fmt: skip


def terminal_width() -> int:
    """Columns to fill: of the terminal, of COLUMNS, else 100."""
    return max(_NARROWEST, shutil.get_terminal_size((_PIPED_WIDTH, 24)).columns)


def has_color(stream: TextIO | None = None) -> bool:
    """True on a terminal that is not dumb, and with FORCE_COLOR; never with NO_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    stream = stream or sys.stdout
    return stream is not None and stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def print_result(text: str) -> None:
    """Writes to standard output, with plain characters where others cannot be shown.

    Raises:
        OutputError: Standard output is closed, or full.
        BrokenPipeError: Nobody reads it any more.
    """
    if sys.stdout is None:
        raise OutputError("standard output is closed", "write the result to a file: see --help")
    try:
        sys.stdout.write(_printable(text if text.endswith("\n") else text + "\n", sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_output()
        raise OutputError(
            f"standard output cannot be written: {error.strerror or error}", "free some space there"
        ) from None


def abandon_output() -> None:
    """Lets go of what could not be written: Python would complain about it on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_note(text: str) -> None:
    """Writes a line to standard error."""
    _write_error(escape_controls(text))


def print_error(error: CoremlscopeError) -> None:
    """Writes what went wrong, and what to do about it, to standard error."""
    red, off = ("\x1b[1;31m", "\x1b[0m") if has_color(sys.stderr) else ("", "")
    _write_error(f"{red}error:{off} {escape_controls(error.message)}")
    if error.hint:
        print_note(f"hint: {error.hint}")


def _write_error(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(_printable(line, sys.stderr) + "\n")


def _printable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    return text


def check_target(path: Path) -> None:
    """Finds out before the work begins whether its result can be written.

    Raises:
        OutputError: The place is a folder, lies in none, or must not be written.
    """
    folder = path.parent
    if path.is_dir():
        raise OutputError(f"{path} cannot be written: it is a folder", "give the name of a file")
    if not folder.is_dir():
        raise OutputError(f"{path} cannot be written: there is no folder {folder}", "make the folder first")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise OutputError(f"{path} cannot be written: permission denied", "choose another place")


def write_file(path: Path, text: str) -> None:
    """Writes a report.

    Raises:
        OutputError: The file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}", "check the folder and its permissions"
        ) from None
