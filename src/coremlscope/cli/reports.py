"""Where a verb's result goes: files, tables on the terminal, JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coremlscope.base.errors import OutputError
from coremlscope.base.writing import write_file
from coremlscope.cli.command import write_result
from coremlscope.cli.terminal import print_note
from coremlscope.reports.renderers import Renderer, document_of, write_report

if TYPE_CHECKING:
    from coremlscope.reports.document import Document
    from coremlscope.reports.json import Result
    from coremlscope.results.explanation import Explanations
    from coremlscope.results.gate import GateReport
    from coremlscope.results.isolation import Isolation
    from coremlscope.results.profile import Profile
    from coremlscope.results.recording_changes import RecordingChanges
    from coremlscope.results.verification import Verification


def write_reports(
    result: Result | Explanations | GateReport | Isolation | RecordingChanges | Verification | Sequence[Any],
    arguments: argparse.Namespace,
    shown: Document | Callable[[int, bool], str] | None = None,
    as_json: Callable[[], str] | None = None,
    renderers: Sequence[Renderer] | None = None,
    choose: Callable[[Path], Result] | None = None,
) -> None:
    """Writes the reports of `-o`, then prints the tables, or JSON instead of them.

    Args:
        result: The result.
        arguments: The parsed arguments, with those of `add_reports`.
        shown: What is printed, as in `write_result`; the document of the result where it is None.
        as_json: Returns what `--json` writes; the whole result where it is None.
        renderers: The formats of `-o`; None for those of the result.
        choose: Returns what a file shows, by its path; the result where it is None.

    Raises:
        OutputError: A file cannot be written; the others are, and the tables are printed.
    """
    failures: list[OutputError] = []
    for path in arguments.output:
        try:
            write_report(result if choose is None else choose(path), path, renderers)
        except OutputError as error:
            failures.append(error)
            continue
        if not arguments.quiet:
            print_note(f"wrote {path}")
    write_result(
        arguments, as_json or partial(_to_json, result), document_of(result) if shown is None else shown
    )
    for failure in failures:
        raise failure


def _to_json(result: Any) -> str:
    from coremlscope.reports.json import render_json

    return render_json(result)


def add_share(parser: argparse.ArgumentParser) -> None:
    """Adds `--share`; see `share_evidence`."""
    parser.add_argument(
        "--share",
        metavar="FILE",
        type=Path,
        help="also write where our plan differs from Core ML's, as JSON without weights and names, to correct"
        " the rules",
    )


def share_evidence(profile: Profile, arguments: argparse.Namespace) -> None:
    """Writes the file of `--share`, if it is asked for.

    Args:
        profile: The profile that contains both plans.
        arguments: The parsed arguments, with those of `add_share` and `model`, which may be None.

    Raises:
        UsageError: The profile does not contain both plans.
        OutputError: The file cannot be written.
    """
    if arguments.share is None:
        return
    from coremlscope.api.evidence import gather_evidence
    from coremlscope.reports.json import render_values
    from coremlscope.reports.words import plural

    found = gather_evidence(profile, arguments.model)
    write_file(arguments.share, render_values(found.to_json()))
    if not arguments.quiet:
        rows = plural(sum(len(plan.rows) for plan in found.plans), "row")
        compared = plural(sum(plan.compared for plan in found.plans), "operation")
        print_note(f"wrote {arguments.share}: {rows}, out of {compared} that were compared")
