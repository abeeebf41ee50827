"""`coremlscope isolate`: a part of a model as a model of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from coremlscope.cli.command import (
    EVERY,
    Command,
    add_inputs,
    add_model,
    add_reports,
    add_shape,
    at_least,
    one_of,
)
from coremlscope.cli.limited import call_on_model, limits_of
from coremlscope.cli.lookup import add_devices
from coremlscope.cli.progress import progress_line
from coremlscope.cli.repetitions import (
    add_engine,
    add_function,
    add_limits,
    add_random_weights,
    add_seed,
    add_stage,
)
from coremlscope.cli.reports import write_reports
from coremlscope.devices.unit import SETTINGS
from coremlscope.reports.renderers import RENDERERS

_EPILOG = """\
The whole model is run up to the end of the part, with the inputs given or synthetic ones; fp16 results
are rounded to fp16, as on a device. The inputs of the part are written to OUT.npz, what the whole model
computes from them to OUT.expected.npz. The part is run with them and compared with the whole model,
then timed here, and planned and estimated for --device. On a Mac, Core ML runs and times it under each
setting of compute units; not yet confirmed on a device.

Constants and compressed weights belong to the operations that read them. Operations of a neural network
are its layers, which are copied as they are; of a compiled network or a stage of a pipeline the part is
written as an ML Program. Classical models have no parts.

examples:
  coremlscope isolate model.mlpackage --op conv_3 -o conv.mlpackage
  coremlscope isolate model.mlpackage --range main/40..main/75 -o block.mlpackage --device iphone-15-pro
  coremlscope isolate model.mlpackage --range softmax_1.. -o tail.mlpackage --input image=photo.jpg
  coremlscope isolate network.mlmodel --type convolution -o convolutions.mlmodel
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    _add_selection(parser)
    parser.add_argument(
        "-o",
        "--output",
        dest="part",
        metavar="OUT.mlpackage",
        type=Path,
        required=True,
        help="the model to write; for a neural network also a .mlmodel file (required)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing files of the part")
    add_function(parser, "to cut from")
    add_stage(parser, "to cut from")
    add_inputs(parser)
    add_shape(parser)
    add_seed(parser, "synthetic inputs and weights")
    add_random_weights(parser)
    add_devices(parser, "chips or devices to plan and estimate the part for: m1, iphone-15-pro")
    parser.add_argument(
        "--compute-units",
        metavar="UNITS",
        type=one_of("compute units", *SETTINGS, EVERY),
        default=EVERY,
        help=f"{', '.join(SETTINGS)}, or every: what Core ML runs the part under, and the first setting of"
        f" plans and estimates (default: {EVERY})",
    )
    add_engine(parser)
    parser.add_argument("--iterations", metavar="N", type=at_least(1), help="timed predictions, exactly")
    add_limits(parser, "each run of Core ML, or the work without them,")
    add_reports(
        parser,
        RENDERERS,
        json="the part, its values' ranges and its profile",
        flags=("--report",),
    )


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """Adds the options of which one chooses the part."""
    parser.add_argument(
        "--op",
        metavar="ID",
        action="append",
        default=[],
        help="an operation, by its id or name (repeatable)",
    )
    parser.add_argument(
        "--range", metavar="A..B", help="all operations from A to B, by ids or names; A.. and ..B as well"
    )
    parser.add_argument("--type", metavar="TYPE", help="all operations of a type: conv")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.devices.targets import Targets
    from coremlscope.measure.effort import Effort
    from coremlscope.reports.isolation import isolation_document
    from coremlscope.reports.json import render_values
    from coremlscope.results.profile import exit_code_of
    from coremlscope.studies.isolation.isolate import isolate

    targets = Targets(arguments.device, arguments.os, arguments.compute_units)
    with progress_line(not arguments.quiet) as progress:
        found = call_on_model(
            isolate,
            arguments,
            limits_of(arguments, settings=targets.settings),
            progress,
            output=arguments.part,
            op=arguments.op,
            span=arguments.range,
            type=arguments.type,
            devices=targets,
            effort=Effort(timeout_s=arguments.timeout, memory_bytes=arguments.memory),
            engine=arguments.engine,
            iterations=arguments.iterations,
            overwrite=arguments.overwrite,
        )

    write_reports(found.profile, arguments, isolation_document(found), lambda: render_values(found.to_json()))
    return exit_code_of([found.profile])


COMMAND = Command(
    name="isolate",
    doc="Cut a part out of a model as a model of its own.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
