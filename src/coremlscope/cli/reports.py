"""Where a verb's result goes: files, tables on the terminal, JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from coremlscope.cli.command import write_result
from coremlscope.cli.terminal import print_note, write_file

if TYPE_CHECKING:
    from coremlscope.comparison.profiles import Comparison
    from coremlscope.render import Renderer
    from coremlscope.results.model import ModelSummary
    from coremlscope.results.profile import Profile

__all__ = ["check_formats", "write_reports"]


def check_formats(arguments: argparse.Namespace, renderers: Sequence[Renderer[Any]]) -> None:
    """Checks the suffixes of `-o` where the formats depend on other arguments.

    Raises:
        UsageError: No format has a suffix.
    """
    from coremlscope.render import find_renderer

    for path in arguments.output:
        find_renderer(path, renderers)


def write_reports(
    subject: Profile | tuple[Profile, ...] | ModelSummary | Comparison,
    arguments: argparse.Namespace,
    renderers: Sequence[Renderer[Any]],
    as_text: Callable[[int, bool], str],
    as_json: Callable[[], str] | None = None,
) -> None:
    """Writes the reports of `-o`, then prints the tables, or JSON instead of them.

    Args:
        subject: The result.
        arguments: The parsed arguments, with those of `add_reports`.
        renderers: The formats of reports.
        as_text: Returns the tables, given the number of columns and whether to colour them.
        as_json: Returns what `--json` writes; the whole result where it is None.

    Raises:
        OutputError: A file cannot be written.
    """
    from coremlscope.render import find_renderer, render_json

    for path in arguments.output:
        write_file(path, find_renderer(path, renderers).render(subject))
        if not arguments.quiet:
            print_note(f"wrote {path}")
    write_result(arguments, as_json or (lambda: render_json(subject)), as_text)
