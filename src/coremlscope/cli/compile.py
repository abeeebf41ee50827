"""`coremlscope compile`: writes a compiled model."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.base.units import format_bytes
from coremlscope.cli.command import Command, add_model, add_quiet
from coremlscope.cli.terminal import print_note

_EPILOG = """\
An ML Program is written in the layout of Apple's compiler: model.mil, weights, metadata.json and
coremldata.bin. Nothing is folded or fused. The folder of any other model contains the model itself
and is read only by coremlscope. Whether Core ML loads these folders is not yet confirmed on a device.

examples:
  coremlscope compile model.mlpackage
  coremlscope compile model.mlpackage build/model.mlmodelc --overwrite
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "output",
        metavar="OUT.mlmodelc",
        nargs="?",
        type=Path,
        help="the folder to write (default: the model's name in the current folder)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing compiled model")
    add_quiet(parser, "do not print a note on the folder that was written")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import api

    output = api.compile(arguments.model, arguments.output, overwrite=arguments.overwrite)
    if not arguments.quiet:
        size = sum(file.stat().st_size for file in output.rglob("*") if file.is_file())
        print_note(f"wrote {output} ({format_bytes(size)})")
    return 0


COMMAND = Command(
    name="compile",
    doc="Write a compiled model (.mlmodelc).",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
