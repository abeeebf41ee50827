"""`coremlscope convert`: one exported PyTorch program as a Core ML and a Core AI model."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.cli.command import Command, add_quiet
from coremlscope.cli.terminal import print_note

_EPILOG = """\
PROGRAM is what torch.export.save writes. coremltools and coreai-torch convert it in a child process,
so that both models come from the same program; Core ML gets the precision of its weights. One that
fails does not stop the other. PyTorch loads the program, which may run code that is in it: convert
only programs that you trust. The converters are the extra `convert`, on Linux (x86-64) and macOS.

examples:
  coremlscope convert net.pt2 --both
  coremlscope convert net.pt2 --core-ai --output build
  coremlscope compare net.mlpackage net.aimodel --device iphone-17-pro
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", metavar="PROGRAM.pt2", type=Path, help="the exported program")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--both", action="store_true", help="to Core ML and Core AI (default)")
    which.add_argument("--core-ml", action="store_true", help="only to Core ML (.mlpackage)")
    which.add_argument("--core-ai", action="store_true", help="only to Core AI (.aimodel)")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, default=Path(), help="the folder of the models"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing models")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=1800.0, help="give up after this (default: 1800)"
    )
    add_quiet(parser, "do not print a note on the models that were written")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.base.errors import EngineError
    from coremlscope.studies.conversion.convert import NAMES, TARGETS, convert

    targets = tuple(name for name in TARGETS if getattr(arguments, name)) or TARGETS
    found = convert(
        arguments.program,
        arguments.output,
        targets,
        overwrite=arguments.overwrite,
        timeout_s=arguments.timeout,
    )
    for one in found:
        if one.path is None:
            print_note(f"{NAMES[one.target]}: {one.problem}")
        elif not arguments.quiet:
            print_note(f"wrote {one.path}")
    return 0 if all(one.path is not None for one in found) else EngineError.exit_code


COMMAND = Command(
    name="convert",
    doc="Convert a PyTorch program to Core ML and Core AI.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
