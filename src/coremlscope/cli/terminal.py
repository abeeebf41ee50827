"""Output: results go to standard output, everything else to standard error."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import TextIO

from coremlscope.base.errors import CoremlscopeError, OutputError
from coremlscope.base.units import escape_controls

_NARROWEST = 40
#: Width if standard output is not a terminal and COLUMNS is not set.
_PIPED_WIDTH = 100

#: Number of lines of the terminal that `draw` shows.
_drawn = 0
#: Replacements of characters that a terminal or a pipe cannot show.
_PLAIN: Mapping[int, str | int | None] = {
    **str.maketrans("×÷–−µ·█▋▊▉●◐○◇•◦✓✗⚠†▓▒░▕│└─›‹", "x/--u|####@%o-**+x!^#=.||`-><", "▏▎▍▌"),
    ord("…"): "...",
    ord("→"): "->",
    ord("≥"): ">=",
    ord("∞"): "inf",
    ord("±"): "+-",
    ord("³"): "^3",
    ord("⁹"): "^9",
    ord("√"): "sqrt ",
    ord("⌀"): "mean ",
    ord("Σ"): "sum ",
    ord("π"): "pi",
    ord("ρ"): "rho",
}


def terminal_width() -> int:
    """Returns the number of columns: COLUMNS, the width of the terminal, or 100."""
    return max(_NARROWEST, shutil.get_terminal_size((_PIPED_WIDTH, 24)).columns)


def has_color(stream: TextIO | None = None) -> bool:
    """True on a terminal that is not dumb, and with FORCE_COLOR; never with NO_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    stream = stream or sys.stdout
    return stream is not None and stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def draws() -> bool:
    """True if standard error is a terminal on which `draw` replaces lines."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def draw(text: str) -> None:
    """Shows lines on the terminal in place of those that were drawn before; an empty text removes them.

    They go to standard error. Lines that are printed there later replace them, too.
    """
    global _drawn
    if not text and not _drawn:
        return
    lines = text.splitlines()[: shutil.get_terminal_size().lines - 1]
    erase = f"\x1b[{_drawn - 1}A" if _drawn > 1 else ""
    _drawn = len(lines)
    _write_error(f"\r{erase}\x1b[J" + "\n".join(lines), end="")


def print_result(text: str) -> None:
    """Writes to standard output; characters that its encoding lacks are replaced.

    Raises:
        OutputError: Standard output is closed, or the disk is full.
        BrokenPipeError: The reader of the pipe has gone away.
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


def abandon_output(stream: TextIO | None = None) -> None:
    """Discards buffered output, so that Python does not report an error when it flushes at exit.

    Args:
        stream: The stream; None for standard output.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def print_note(text: str) -> None:
    """Writes a line to standard error."""
    draw("")
    _write_error(escape_controls(text))


def print_error(error: CoremlscopeError) -> None:
    """Writes an error's message and hint to standard error."""
    draw("")
    red, off = ("\x1b[1;31m", "\x1b[0m") if has_color(sys.stderr) else ("", "")
    _write_error(f"{red}error:{off} {escape_controls(error.message)}")
    if error.hint:
        print_note(f"hint: {error.hint}")


def _write_error(text: str, end: str = "\n") -> None:
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(_printable(text, sys.stderr) + end)
        sys.stderr.flush()
    except BrokenPipeError:
        raise
    except OSError:  # as on a full disk: the result and the exit code still count
        abandon_output(sys.stderr)


def _printable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    return text
