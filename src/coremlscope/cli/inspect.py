"""`coremlscope inspect`: what a model is, without running it."""

from __future__ import annotations

import argparse
import functools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.base.errors import UsageError
from coremlscope.cli.command import Command, add_model, add_reports, add_shape, write_result
from coremlscope.cli.repetitions import add_function
from coremlscope.cli.reports import write_reports
from coremlscope.reports.renderers import SUMMARY_RENDERERS

if TYPE_CHECKING:
    from coremlscope.results.model import BundleSummary, ModelSummary

#: Pages list the operations of models with at most so many; those of larger ones only with --ops.
_MOST_OPS_OF_PAGES = 50_000

_EPILOG = """\
The models in an app (.ipa, .app), an archive, a folder or an ExecuTorch program (.pte) are listed.
Every command takes one of them as PATH#NAME.

Only a Mac makes a key that encrypts a model (Create Encryption Key, under Utilities of the model in
Xcode); `xcrun coremlcompiler compile model.mlpackage OUT --encrypt KEY.mlmodelkey` encrypts with it.
Only a Mac makes an archive for Apple's model deployment (Create Model Archive, there too); an app that
downloads models itself takes those of `xcrun coremlcompiler compile model.mlpackage OUT`.

examples:
  coremlscope inspect model.mlpackage
  coremlscope inspect App.ipa
  coremlscope inspect 'App.ipa#Detector.mlmodelc'
  coremlscope inspect model.mlpackage --ops
  coremlscope inspect model.mlpackage --swift
  coremlscope inspect model.mlpackage --json - | jq .parameters
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--ops",
        action="store_true",
        help="list every operation with the shapes of its results, in reports too; .html and .csv always do",
    )
    parser.add_argument(
        "--swift",
        action="store_true",
        help="print the Swift interface that an app uses, instead of the tables",
    )
    add_function(parser, "to show in full")
    add_shape(parser)
    add_reports(parser, SUMMARY_RENDERERS, json="the description")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api

    listing = api.list_models(arguments.model)
    if listing is not None and len(listing.models) > 1:
        return _list(listing, arguments)
    model, shapes = api.read(arguments.model), dict(arguments.shape)
    summary = api.inspect(model, shapes=shapes, function=arguments.function, list_ops=arguments.ops)

    @functools.cache
    def listed() -> ModelSummary:
        return api.inspect(model, shapes=shapes, function=arguments.function, list_ops=True)

    def choose(path: Path) -> ModelSummary:
        """Returns the description, with its operations for pages and CSV files."""
        is_short = sum(sum(function.ops.values()) for function in summary.functions) <= _MOST_OPS_OF_PAGES
        suffix = path.suffix.lower()
        needs_ops = suffix == ".csv" or (suffix == ".html" and is_short)
        return listed() if needs_ops and not arguments.ops else summary

    def swift(_width: int, _color: bool) -> str:
        from coremlscope.describe.swift import swift_interface

        return swift_interface(model, arguments.function, summary.functions)

    write_reports(summary, arguments, swift if arguments.swift else None, choose=choose)
    return 0


def _list(listing: BundleSummary, arguments: argparse.Namespace) -> int:
    """Lists the models in a bundle.

    Raises:
        UsageError: An option for a single model is given.
    """
    from coremlscope.reports.listing import bundle_document, bundle_to_json

    options = {
        "-o": arguments.output,
        "--ops": arguments.ops,
        "--swift": arguments.swift,
        "--function": arguments.function,
        "--shape": arguments.shape,
    }
    given = [name for name, value in options.items() if value]
    if given:
        raise UsageError(
            f"{given[0]} is for one model, and {listing.path} contains {len(listing.models)}",
            f"name one: {shlex.quote(listing.models[0].source)}",
        )
    write_result(
        arguments,
        lambda: bundle_to_json(listing),
        bundle_document(listing),
    )
    return 0


COMMAND = Command(
    name="inspect",
    doc="Show what a model is, or list the models in an app.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
