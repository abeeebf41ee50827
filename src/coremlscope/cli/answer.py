"""`coremlscope MODEL`, without a verb: how fast it is, where the time goes, and what to change."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.cli.command import Command, add_compute_units, add_reports, add_shape, read_path
from coremlscope.cli.estimate import check_formats
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.progress import progress_line
from coremlscope.cli.providers import add_provider, check_no_provider, is_onnx, shapes_of, with_providers
from coremlscope.cli.repetitions import add_function
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import print_note
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.reports.renderers import RENDERERS

if TYPE_CHECKING:
    from coremlscope.describe.comparison.profiles import Comparison
    from coremlscope.results.profile import Profile

#: The default devices for which ONNX Runtime's providers are compared: each costs a plan of every partition.
_PROVIDER_DEVICES = 2

_EPILOG = """\
The answer follows from the file, without running it. Without --device it is for a phone and a Mac of
this year, of two and of five years ago; on a Mac, Core ML also measures a single model here, within
seconds. A change is `likely` to save time, `unclear` or `unknown`: the worst of what that follows from.

examples:
  coremlscope model.mlpackage
  coremlscope model.mlpackage --device iphone-13,m4 --open
  coremlscope before.mlpackage after.mlpackage
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        metavar="MODEL",
        type=read_path,
        nargs="+",
        help=".mlpackage, .mlmodelc, .mlmodel, .aimodel, .onnx or .zip; several are compared",
    )
    add_devices(parser, "chips or devices: m1, iphone-15-pro; `coremlscope devices` lists them")
    add_compute_units(parser)
    add_function(parser, "to estimate")
    add_shape(parser)
    add_provider(parser)
    parser.add_argument(
        "--no-measure", dest="measures", action="store_false", help="on a Mac, do not run it in Core ML"
    )
    parser.add_argument("--open", action="store_true", help="open the page with all details in the browser")
    add_reports(parser, RENDERERS, json="the answer as it is shown")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api
    from coremlscope.reports.answer import render_answer, this_mac_values
    from coremlscope.reports.answer_json import render_answers_json
    from coremlscope.reports.provider import provider_values
    from coremlscope.results.profile import exit_code_of

    is_list = len(arguments.models) > 1
    if is_list:
        check_formats(arguments.output)
    if not any(map(is_onnx, arguments.models)):
        check_no_provider(arguments)
    # The screen about several models shows no changes of one.
    shows_changes = not is_list or arguments.open or bool(arguments.output or arguments.json)
    with progress_line(not arguments.quiet) as progress:
        answered = [
            api.answer(
                model,
                arguments.device or (DEFAULT_DEVICES if is_list else ()),
                os=arguments.os,
                compute_units=arguments.compute_units,
                function=arguments.function,
                shapes=shapes_of(model, arguments),
                advises=shows_changes,
                measures=arguments.measures,
                progress=progress,
            )
            for model in arguments.models
        ]
    profiles = tuple(
        with_providers(profile, model, arguments, arguments.device or DEFAULT_DEVICES[:_PROVIDER_DEVICES])
        for profile, model in zip(answered, arguments.models, strict=True)
    )
    comparison = _compare(profiles) if is_list else None
    result = profiles[0] if comparison is None else comparison
    write_reports(
        result,
        arguments,
        lambda width, color: render_answer(profiles, comparison, width=width, color=color),
        lambda: render_answers_json(
            profiles, comparison, **this_mac_values(profiles[0]), **provider_values(profiles)
        ),
    )
    if arguments.open:
        _open_page(result, profiles[0].model.path)
    return exit_code_of(profiles)


def _compare(profiles: Sequence[Profile]) -> Comparison:
    from coremlscope.planning.answer.comparison import compare_judged

    return compare_judged(profiles)


def _open_page(result: Profile | Comparison, name: str) -> None:
    """Opens the page in a browser, from a file that stays until the system clears its temporary files."""
    import tempfile
    import webbrowser

    from coremlscope.reports.renderers import write_report

    page = Path(tempfile.mkdtemp(prefix="coremlscope-")) / f"{Path(name).stem}.html"
    write_report(result, page)
    print_note(f"wrote {page}")
    webbrowser.open(page.as_uri())


COMMAND = Command(
    name="",
    doc="Say how fast a model is, where the time goes, and what to change.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
