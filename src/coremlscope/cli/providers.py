"""Options and output for ONNX models, which ONNX Runtime's Core ML provider divides."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from coremlscope.base.errors import UsageError
from coremlscope.cli.command import one_of

if TYPE_CHECKING:
    from coremlscope.planning.onnxruntime.case import Format
    from coremlscope.results.profile import Profile

#: The words of `--format`; the first is ONNX Runtime's own default.
_FORMATS: tuple[Format, ...] = ("neuralnetwork", "mlprogram")
_SUFFIXES = (".onnx",)
_BOTH = "both by default; the first is ONNX Runtime's own default"


def is_onnx(path: object) -> TypeGuard[Path]:
    """True for the path of an ONNX model."""
    return isinstance(path, Path) and path.suffix.lower() in _SUFFIXES and path.is_file()


def add_provider(parser: argparse.ArgumentParser, doc: str = _BOTH) -> None:
    """Adds `--format` and `--ort`.

    Args:
        parser: The verb's parser.
        doc: What `--format` does.
    """
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        type=one_of("format", *_FORMATS),
        help=f"for ONNX: the provider's ModelFormat, {' or '.join(_FORMATS)}: {doc}",
    )
    parser.add_argument(
        "--ort",
        metavar="VERSION",
        help="for ONNX: the release of ONNX Runtime, 1.20 to 1.32 (default: the newest of these)",
    )


def session_of(arguments: argparse.Namespace) -> str:
    """Returns the name of the session that `--format` and `--ort` describe: `mlprogram-1.27`; empty for none.

    Raises:
        UsageError: There is a release without a format.
    """
    if arguments.ort is not None and arguments.format is None:
        raise UsageError("--ort is of a session with one format", f"add --format {_FORMATS[1]}")
    return "-".join(filter(None, (arguments.format, arguments.ort)))


def check_no_provider(arguments: argparse.Namespace) -> None:
    """Checks that no option for ONNX is given with other models.

    Raises:
        UsageError: One is.
    """
    for option in ("format", "ort"):
        if getattr(arguments, option) is not None:
            raise UsageError(f"--{option} is for ONNX models", "leave it out, or name a .onnx file")


def with_providers(
    profile: Profile, path: object, arguments: argparse.Namespace, devices: Sequence[str]
) -> Profile:
    """Adds what ONNX Runtime makes of an ONNX model to its profile; see `add_providers`.

    Args:
        profile: The profile.
        path: The model; without a change if it is no ONNX model.
        arguments: The options.
        devices: The devices for which that is estimated.
    """
    if not is_onnx(path):
        return profile
    from coremlscope.api.providers import add_providers
    from coremlscope.devices import find_devices

    return add_providers(
        profile,
        path,
        find_devices(devices, arguments.os) if devices else (),
        _FORMATS if arguments.format is None else (arguments.format,),
        release=arguments.ort,
        shapes=dict(arguments.shape),
    )


def shapes_of(path: object, arguments: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """Returns shapes of inputs; for ONNX models, `--shape` may also give sizes of free dimensions by name.

    Raises:
        ModelError: The model cannot be read.
    """
    given: dict[str, tuple[int, ...]] = dict(arguments.shape)
    if not given or not is_onnx(path):
        return given
    from coremlscope.formats.onnx.model import default_shapes
    from coremlscope.formats.onnx.reader import read_onnx

    onnx = read_onnx(path)
    inputs = {one.name: one for one in onnx.free_inputs}
    shapes = {name: shape for name, shape in given.items() if name in inputs}
    sizes = {name: shape[0] for name, shape in given.items() if name not in inputs and len(shape) == 1}
    for name, shape in default_shapes(onnx).items():
        dims = inputs[name].dims
        if name not in shapes and sizes.keys() & set(dims):
            shapes[name] = tuple(
                sizes.get(dim, size) if isinstance(dim, str) else size
                for dim, size in zip(dims, shape, strict=True)
            )
    return shapes
