"""`coremlscope probe`: single layers by kind and options."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.base.errors import UsageError
from coremlscope.cli.command import Command, add_compute_units, add_reports
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.progress import progress_line
from coremlscope.cli.repetitions import add_iterations
from coremlscope.cli.reports import write_reports
from coremlscope.cli.terminal import has_color, print_result, terminal_width
from coremlscope.reports.renderers import LAYER_RENDERERS

_MODELS = (".aimodel", ".mlpackage", ".mlmodel", ".mlmodelc")

_EPILOG = """\
Builds a model of one layer for every combination of options, and shows where it would run under each
setting of compute units, at what planned cost and estimated time, and why. An option has one value,
several (dilations=1,2,4), or the whole numbers of a range (kernel=1..31, or 1..31..2); sizes are
joined by x (kernel=3x5, shape=1x64x56x56). Every kind has the options shape, dtype (fp16 or fp32) and
repeat, which chains the layer. --list shows all kinds with their options and defaults.

With --run each layer is also timed: on a Mac in Core ML, not yet confirmed on a device, elsewhere on
this machine. The JSON contains a list of profiles, one per layer.

examples:
  coremlscope probe 'conv(dilations=1,2,4, kernel=3)' --device m1
  coremlscope probe 'conv(kernel=1..31, shape=1x64x112x112)' --device iphone-15-pro -o kernels.csv
  coremlscope probe 'sdpa(keys=128,1024,4096)' --device m1,m4 --compute-units all
  coremlscope probe 'layer_norm(shape=1x77x768)' --run
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "expression", metavar="LAYER", nargs="?", help="the layer: 'conv(dilations=1,2,4, kernel=3)'"
    )
    parser.add_argument("--list", action="store_true", help="list the kinds of layers and their options")
    add_devices(parser, "chips or devices to plan and estimate for: m1, iphone-15-pro")
    add_compute_units(parser, default="every")
    parser.add_argument("--run", action="store_true", help="time each layer as well")
    add_iterations(parser, 10)
    parser.add_argument(
        "--keep", metavar="FOLDER", type=Path, help="write each layer as a package into this folder"
    )
    add_reports(parser, LAYER_RENDERERS, json="the profiles")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.reports.layers import layers_document
    from coremlscope.studies.probing.probe import probe

    if arguments.list:
        print_result(_kinds())
        return 0
    if arguments.expression is None:
        raise UsageError("LAYER is missing", "give for instance 'conv(kernel=3)', or --list")
    if Path(arguments.expression).suffix in _MODELS:
        raise UsageError(
            f"{arguments.expression} is a model, not a layer",
            "give for instance 'conv(kernel=3)'; `coremlscope plan` shows the layers of a model",
        )
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    with progress_line(not arguments.quiet) as progress:
        profiles = probe(
            arguments.expression,
            arguments.device,
            os=arguments.os,
            compute_units=arguments.compute_units,
            run=arguments.run,
            iterations=arguments.iterations,
            folder=arguments.keep,
            progress=progress,
        )
    write_reports(profiles, arguments, layers_document(profiles), renderers=LAYER_RENDERERS)
    return 0


def _kinds() -> str:
    from coremlscope.reports.document import Column, Table, Title
    from coremlscope.reports.terminal.writer import write_terminal
    from coremlscope.studies.probing.expression import describe_value
    from coremlscope.studies.probing.layers import KINDS

    title = Title("Kinds of layers", f"{len(KINDS)}; every one also has shape, dtype=fp16 and repeat=1")
    rows = [
        (
            kind.name,
            ", ".join(
                f"{name}={describe_value(value)}"
                for name, value in (*kind.options.items(), ("shape", kind.shape))
            ),
            kind.doc,
        )
        for kind in KINDS.values()
    ]
    table = Table((Column("kind", style="cyan", most=24), Column("options"), Column("")), rows)
    return write_terminal((title, table), width=terminal_width(), color=has_color())


COMMAND = Command(
    name="probe",
    doc="Show where single layers run and what they cost, by kind and options.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
