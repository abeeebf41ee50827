"""Where a verb's result goes: tables on the terminal, JSON, files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.cli.terminal import has_color, print_note, print_result, terminal_width, write_file

if TYPE_CHECKING:
    from coremlscope.profiling.profile import Profile
    from coremlscope.profiling.summary import ModelSummary

__all__ = ["write_reports"]


def write_reports(subject: Profile | ModelSummary, arguments: argparse.Namespace) -> None:
    """Writes the files that were asked for, then the tables, or JSON in their place.

    Raises:
        OutputError: A file cannot be written.
    """
    from coremlscope.render import find_renderer, render_console, render_json

    for path in arguments.output:
        write_file(path, find_renderer(path).render(subject))
        _note(f"wrote {path}", arguments)
    if arguments.json == "-":
        print_result(render_json(subject))
        return
    if arguments.json:
        write_file(Path(arguments.json), render_json(subject))
        _note(f"wrote {arguments.json}", arguments)
    if not arguments.quiet:
        print_result(render_console(subject, width=terminal_width(), color=has_color()))


def _note(text: str, arguments: argparse.Namespace) -> None:
    if not arguments.quiet:
        print_note(text)
