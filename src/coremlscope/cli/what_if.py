"""`coremlscope what-if`: what coremltools' transforms change in a model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coremlscope.base.errors import INTERRUPTED_EXIT, UsageError
from coremlscope.base.units import format_bytes
from coremlscope.cli.command import (
    Command,
    add_compute_units,
    add_inputs,
    add_json,
    add_model,
    add_quiet,
    add_shape,
    at_least,
)
from coremlscope.cli.inputs import read_samples
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.progress import progress_line
from coremlscope.cli.repetitions import add_random_weights, add_seed
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import print_note
from coremlscope.reports.renderers import VARIANT_RENDERERS, find_renderer, list_formats

_EPILOG = """\
Variants are those of coremltools, each made in a child process. Weights of programs are mostly
compressed without it; the rest needs the extra `coreml`. Outputs are compared with the original's
on the same inputs, here and in fp32 arithmetic. Results are kept in the cache: a call that was
stopped continues where it stopped.

transforms, several of them joined by +, as in prune-50+palettize-4:
  fp16, fp16-io             computation, or inputs and outputs, in half precision
  palettize-N[-group-G]     N-bit indices into a table: 8, 6, 4, 3, 2 or 1; for every G channels
  int8, int4[-block-B]      integers with a scale for each channel, or for blocks of B elements
  prune-P                   the smallest P % of the weights become zero
  w8a8                      weights and activations in 8 bits; needs real inputs (--input)
  ios15 … ios18, ios26      a newer deployment target
  static, enumerated        fixed or enumerated shapes instead of flexible ones (--shape)
  tidy                      without redundant casts, transposes, reshapes, unused operations, and weights
                            that are stored twice
  palettize-unique          weights that hold few values as indices into a table, without loss
  without-needless-outputs  without outputs that are constants, inputs or other outputs
  image-inputs              pictures as images instead of arrays of pixels; -unit for arrays of 0 … 1,
                            -imagenet for normalized ones
  linear-as-conv            linear layers as 1×1 convolutions over (B, C, 1, S)
  relu6                     each ReLU6 that is several layers as one

examples:
  coremlscope what-if model.mlpackage --device iphone-13
  coremlscope what-if model.mlpackage --try int8,palettize-4 --input image=photos/ -o variants.html
  coremlscope what-if model.mlpackage --apply palettize-4 -o small.mlpackage
"""


def _names(text: str) -> tuple[str, ...]:
    """Parses names of transforms, separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--try",
        dest="transforms",
        metavar="NAME,…",
        type=_names,
        default=(),
        help="these transforms (default: all that suit the model)",
    )
    parser.add_argument(
        "--apply", metavar="NAME", help="only apply this transform, and write the model to the file of -o"
    )
    parser.add_argument("--overwrite", action="store_true", help="with --apply: replace an existing model")
    add_devices(parser, "chips or devices to plan and estimate for: m1, iphone-15-pro")
    add_compute_units(parser)
    add_inputs(parser)
    parser.add_argument(
        "--samples",
        metavar="N",
        type=at_least(1),
        default=4,
        help="synthetic inputs to compare outputs on, without --input (default: 4)",
    )
    add_shape(parser)
    add_seed(parser, "synthetic inputs")
    add_random_weights(parser, "; not with --apply")
    parser.add_argument(
        "--workers",
        metavar="N",
        type=at_least(1),
        help="child processes at the same time (default: as cores and memory allow)",
    )
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=at_least(1), help="give up on a variant after that time"
    )
    parser.add_argument("--no-cache", action="store_true", help="neither use nor keep results in the cache")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help=f"write a report: {list_formats(VARIANT_RENDERERS)} (repeatable); with --apply the model",
    )
    add_json(parser)
    add_quiet(parser)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.apply is not None:
        return _apply(arguments)
    from coremlscope.base.writing import check_file
    from coremlscope.devices.targets import Targets
    from coremlscope.studies.variants.study import what_if

    for path in arguments.output:
        find_renderer(path, VARIANT_RENDERERS)
        check_file(path)
    with progress_line(not arguments.quiet) as progress:
        report = what_if(
            arguments.model,
            transforms=arguments.transforms,
            devices=Targets(arguments.device, arguments.os, arguments.compute_units),
            workers=arguments.workers,
            timeout_s=arguments.timeout,
            has_cache=not arguments.no_cache,
            random_weights=arguments.random_weights,
            progress=None if progress is None else lambda _, done, total: progress("variants", done, total),
            **_inputs(arguments),
        )
    write_reports(report, arguments)
    if report.exit_code == INTERRUPTED_EXIT:
        print_note("interrupted")
    return report.exit_code


def _apply(arguments: argparse.Namespace) -> int:
    from coremlscope.studies.variants.study import apply_variant

    if len(arguments.output) != 1:
        raise UsageError("--apply needs one file to write", "add -o model.mlpackage")
    target = arguments.output[0]
    made = apply_variant(
        arguments.model, arguments.apply, target, overwrite=arguments.overwrite, **_inputs(arguments)
    )
    if not arguments.quiet:
        size = "" if made.size_bytes is None else f", {format_bytes(made.size_bytes)}"
        print_note(f"wrote {target}{size}")
        for note in made.notes:
            print_note(note)
    return 0


def _inputs(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the inputs and shapes as arguments of `what_if` and `apply_variant`."""
    from coremlscope import api

    shapes: dict[str, list[Sequence[int]]] = {}
    for name, shape in arguments.shape:
        shapes.setdefault(name, []).append(shape)
    first = {name: known[0] for name, known in shapes.items()}
    samples = []
    if arguments.input:
        described = api.read(arguments.model).description.main
        samples = read_samples(described, arguments.input, first, arguments.resize)
    return {"inputs": samples, "samples": arguments.samples, "shapes": shapes, "seed": arguments.seed}


COMMAND = Command(
    name="what-if",
    doc="Try coremltools' transforms on a model: size, time, placement, memory and outputs of each.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
