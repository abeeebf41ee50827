"""`coremlscope export`: the lowered graph as ONNX."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.base.errors import UsageError
from coremlscope.base.units import format_bytes
from coremlscope.base.writing import check_file, check_folder, write_file
from coremlscope.cli.command import Command, add_model, add_quiet, add_shape
from coremlscope.cli.repetitions import add_function
from coremlscope.cli.terminal import print_note

_EPILOG = """\
Inputs and outputs keep their names. A classifier returns the index of its label and the
probabilities; the labels are in the metadata, as JSON under coremlscope.labels. A pipeline is
exported as a folder: a file for each stage, and pipeline.json, which describes how they connect.
Weights of more than 2 GB are written to a second file, OUT.onnx.HASH.data; replacing an export
removes the previous one. Of a saved profile, measured and estimated times are written as the rows
that `coremlscope sweep` keeps.

examples:
  coremlscope export model.mlpackage model.onnx
  coremlscope export model.mlpackage model.onnx --shape image=1x3x320x320
  coremlscope export pipeline.mlmodel stages
  coremlscope export profile.json results.parquet
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "output",
        metavar="OUT.onnx",
        type=Path,
        help="the ONNX file to write; for a pipeline a folder; for a saved profile a .parquet file",
    )
    add_function(parser, "to export")
    add_shape(parser)
    add_quiet(parser, "do not print notes on the files that were written")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api

    output: Path = arguments.output
    if output.suffix.lower() == ".parquet":
        return _export_results(arguments)
    may_be_folder = output.is_dir() or not output.suffix
    if output.suffix.lower() != ".onnx" and not may_be_folder:
        raise _no_onnx_name(output)
    model = api.read(arguments.model)
    if not may_be_folder:
        check_file(output)
    elif model.content.models:
        check_folder(output)
    else:
        raise _no_onnx_name(output)
    files = api.export(model, output, function=arguments.function, shapes=dict(arguments.shape))
    if not arguments.quiet:
        for file in files:
            print_note(f"wrote {file} ({format_bytes(file.stat().st_size)})")
    return 0


def _export_results(arguments: argparse.Namespace) -> int:
    """Writes the results of a saved profile as rows; see `coremlscope sweep`."""
    from coremlscope.api.imported import read_any
    from coremlscope.interop.source import is_readable
    from coremlscope.reports.words import plural
    from coremlscope.studies.sweep.profiles import imported_rows
    from coremlscope.studies.sweep.store import parquet_bytes

    source: Path = arguments.model
    if not is_readable(source):
        raise UsageError(
            f"{source} is a model, and only saved profiles are exported as .parquet",
            f"profile it first: `coremlscope profile {source} -o profile.json`",
        )
    check_file(arguments.output)
    rows = [row for profile in read_any(source) for row in imported_rows(profile, source)]
    write_file(arguments.output, parquet_bytes(rows))
    if not arguments.quiet:
        print_note(f"wrote {arguments.output} ({plural(len(rows), 'result')})")
    return 0


def _no_onnx_name(output: Path) -> UsageError:
    return UsageError(f"{output} does not end in .onnx", f"did you mean {output.with_suffix('.onnx')}?")


COMMAND = Command(
    name="export",
    doc="Write the lowered model as ONNX, or the results of a saved profile as Parquet.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
