"""Where a verb's result goes: files, tables on the terminal, JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from coremlscope.cli.command import write_result
from coremlscope.cli.terminal import print_note, write_file

if TYPE_CHECKING:
    from coremlscope.render import Renderer
    from coremlscope.render.json import Result

__all__ = ["write_reports"]


def write_reports(
    subject: Result,
    arguments: argparse.Namespace,
    renderers: Sequence[Renderer[Any]],
    as_text: Callable[[int, bool], str],
) -> None:
    """Writes the files that were asked for, then the tables, or JSON in their place.

    Args:
        subject: The result.
        arguments: What was parsed, with those of `add_reports`.
        renderers: The formats that files may have.
        as_text: The tables, given the number of columns and whether to colour them.

    Raises:
        OutputError: A file cannot be written.
    """
    from coremlscope.render import find_renderer, render_json

    for path in arguments.output:
        write_file(path, find_renderer(path, renderers).render(subject))
        if not arguments.quiet:
            print_note(f"wrote {path}")
    write_result(arguments, lambda: render_json(subject), as_text)
