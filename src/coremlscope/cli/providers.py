"""Options and output for ONNX models, which ONNX Runtime's Core ML provider divides."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from coremlscope.base.errors import UsageError
from coremlscope.cli.command import one_of

if TYPE_CHECKING:
    from coremlscope.planning.onnxruntime.case import Format

#: The words of `--format`; the first is ONNX Runtime's own default.
_FORMATS: tuple[Format, ...] = ("neuralnetwork", "mlprogram")
_SUFFIXES = (".onnx", ".ort")


def is_onnx(path: Path) -> bool:
    """True for the path of an ONNX model."""
    return path.suffix.lower() in _SUFFIXES and path.is_file()


def add_provider(parser: argparse.ArgumentParser) -> None:
    """Adds `--format` and `--ort`."""
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        type=one_of("format", *_FORMATS),
        help=f"for ONNX: the provider's ModelFormat: {' or '.join(_FORMATS)} (default: both; the first is"
        " ONNX Runtime's own default)",
    )
    parser.add_argument(
        "--ort",
        metavar="VERSION",
        help="for ONNX: the release of ONNX Runtime, 1.20 to 1.32 (default: the newest of these)",
    )


def chosen_formats(arguments: argparse.Namespace) -> tuple[Format, ...]:
    """Returns the formats of `--format`."""
    return _FORMATS if arguments.format is None else (arguments.format,)


def check_no_provider(arguments: argparse.Namespace) -> None:
    """Checks that no option for ONNX is given with another model.

    Raises:
        UsageError: One is.
    """
    for option in ("format", "ort"):
        if getattr(arguments, option) is not None:
            raise UsageError(f"--{option} is for ONNX models", "leave it out, or name a .onnx file")
