"""Where a verb's result goes: tables on the terminal, JSON, files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from coremlscope.cli.command import write_result
from coremlscope.cli.terminal import print_note, write_file

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
        if not arguments.quiet:
            print_note(f"wrote {path}")
    write_result(
        arguments,
        lambda: render_json(subject),
        lambda width, color: render_console(subject, width=width, color=color),
    )
