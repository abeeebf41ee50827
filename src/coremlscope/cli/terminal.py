"""What is written where: results to standard output, everything else to standard error."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TextIO

from coremlscope.errors import CoremlscopeError, OutputError

__all__ = ["has_color", "print_error", "print_note", "print_result", "terminal_width", "write_file"]

_NARROWEST = 40
#: Width where standard output is no terminal and COLUMNS is not set.
_PIPED_WIDTH = 100

#: Stand-ins for terminals and pipes that cannot show a character.
_PLAIN = str.maketrans({
    "×": "x", "…": "...", "–": "-", "−": "-", "→": "->", "≥": ">=", "µ": "u", "·": "|", "∞": "inf",
    "█": "#", "▏": "", "▎": "", "▍": "", "▌": "", "▋": "#", "▊": "#", "▉": "#", "±": "+-",
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
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def print_result(text: str) -> None:
    """Writes to standard output, with plain characters where others cannot be shown."""
    sys.stdout.write(_printable(text, sys.stdout))
    if not text.endswith("\n"):
        sys.stdout.write("\n")


def print_note(text: str) -> None:
    """Writes a line to standard error."""
    sys.stderr.write(_printable(text, sys.stderr) + "\n")


def print_error(error: CoremlscopeError) -> None:
    """Writes what went wrong, and what to do about it, to standard error."""
    red, off = ("\x1b[1;31m", "\x1b[0m") if has_color(sys.stderr) else ("", "")
    print_note(f"{red}error:{off} {error.message}")
    if error.hint:
        print_note(f"hint: {error.hint}")


def _printable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    return text


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
